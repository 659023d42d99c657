package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxrelay/outbox/internal/spell"
)

// lineProblem tells what is wrong with a line by its keys, not by the type that it is read into.
func lineProblem(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf(`must be an object such as {"topic":"orders.created","payload":{"id":7}}, not %s`, wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: must be %s, not %s", wrong.Field, inJSON(wrong.Type), wrong.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("is no JSON from byte %d on: %w", syntax.Offset, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is no JSON: it ends too early; a message is one line")
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return fmt.Errorf("%s: there is no such key%s", name, didYouMean(spell.Nearest(name, lineKeys())))
		}
	}
	return err
}

// inJSON is what JSON has for a Go type.
func inJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "a number"
	case reflect.Map:
		return "an object of strings"
	}
	return "a " + t.String()
}

// lineKeys are the keys of a line.
func lineKeys() (keys []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[line]()) {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

// lineNames are what a line calls the fields of a message.
func lineNames(field string) string {
	switch field {
	case "Delay", "TTL", "BrokerTTL":
		return snake(field) + "_seconds"
	}
	if key := snake(field); slices.Contains(lineKeys(), key) {
		return key
	}
	return ""
}
