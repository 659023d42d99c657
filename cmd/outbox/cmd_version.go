package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  outbox version --json",
		Args:    cobra.NoArgs,
	}
	cmd.RunE = action(func(*cobra.Command, []string) error {
		if a.json {
			return a.printJSON(struct {
				Version string `json:"version"`
				Commit  string `json:"commit,omitempty"`
				Go      string `json:"go"`
			}{version(), commit(), runtime.Version()})
		}
		a.printf("outbox %s %s\n", version(), runtime.Version())
		return nil
	})
	return cmd
}

// version is the module's, "(devel)" in a build from a checkout without a tag.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func commit() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
