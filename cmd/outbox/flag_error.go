package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox/internal/spell"
)

var (
	flagInUsage  = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	invalidValue = regexp.MustCompile(`(?s)^invalid argument "(.*)" for "(?:-\w, )?--([a-z-]+)" flag: `)
)

// flagError tells which flag was meant, and what a value must be.
func flagError(cmd *cobra.Command, err error) error {
	var unknown interface {
		error
		GetSpecifiedName() string
		GetSpecifiedShortnames() string
	}
	if strings.HasPrefix(err.Error(), "unknown") && errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, didYouMean(flagMeant(cmd, unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames())))
	}
	match := invalidValue.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	must := map[string]string{"int": "a whole number", "int64": "a whole number", "bool": "true or false"}
	if f := cmd.Flags().Lookup(match[2]); f != nil && must[f.Value.Type()] != "" {
		return fmt.Errorf("--%s %q: must be %s", match[2], match[1], must[f.Value.Type()])
	}
	return err
}

// flagMeant is the flag that is nearest to a name, or that was given with one dash.
func flagMeant(cmd *cobra.Command, name, letters string) string {
	var known []string
	for _, match := range flagInUsage.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		known = append(known, match[1])
	}
	if letters != "" {
		name = letters
	}
	nearest := spell.Nearest(name, known)
	if nearest == "" {
		return ""
	}
	return "--" + nearest
}
