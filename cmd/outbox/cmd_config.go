package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration",
		Long: `Print the effective configuration: each setting with its value and where that came from. Secrets are masked. Nothing
is connected to.

Precedence: flag, environment, file, default. An empty value is the default. The file's keys are those printed here;
a dot is a level of the file. Unknown keys and unknown variables that begin with OUTBOX_ are errors.`,
		Example: `  OUTBOX_LEASE=1m outbox config --config outbox.yaml`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeRelay)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(c.shown())
		}
		return a.printTable(c.shown().rows())
	})
	return cmd
}

// shownConfig is the configuration as it is printed.
type shownConfig struct {
	File         string             `json:"file,omitempty"`
	Settings     []shownSetting     `json:"settings"`
	Destinations []shownDestination `json:"destinations"`
	Routes       []shownRoute       `json:"routes"`
	Rules        []shownRule        `json:"rules"`
}

type shownSetting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

type shownDestination struct {
	Name    string            `json:"name"`
	URL     string            `json:"url,omitempty"`
	URLFile string            `json:"url_file,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Slots   int               `json:"slots,omitempty"`
}

type shownRoute struct {
	Topics []string `json:"topics"`
	To     string   `json:"to"`
}

type shownRule struct {
	Topics         []string `json:"topics"`
	Order          string   `json:"order,omitempty"`
	MaxAttempts    attempts `json:"max_attempts,omitempty"`
	TimeoutSeconds float64  `json:"timeout_seconds,omitempty"`
	OnExpired      string   `json:"on_expired,omitempty"`
	Retry          *retry   `json:"retry,omitempty"`
}

type retry struct {
	BaseSeconds float64 `json:"base_seconds,omitempty"`
	MaxSeconds  float64 `json:"max_seconds,omitempty"`
	Jitter      float64 `json:"jitter,omitempty"`
	JitterOff   bool    `json:"jitter_off,omitempty"`
}

func (c *config) shown() shownConfig {
	s := shownConfig{File: c.file, Destinations: []shownDestination{}, Routes: []shownRoute{}, Rules: []shownRule{}}
	for _, known := range settings() {
		shown := shownSetting{known.key, known.def, "default"}
		if g, ok := c.given[known.key]; ok {
			shown.Value, shown.Source = g.text, g.origin.text
			if known.secret {
				shown.Value = mask(g.text)
			}
		}
		s.Settings = append(s.Settings, shown)
	}
	for _, d := range c.targets() {
		s.Destinations = append(s.Destinations, shownDestination{d.name, mask(d.url.text), d.url.file, d.options, c.laneOf(d).slots})
	}
	for _, r := range c.allRoutes() {
		s.Routes = append(s.Routes, shownRoute{r.topics, r.to})
	}
	for _, r := range c.relay.Rules {
		s.Rules = append(s.Rules, showRule(r))
	}
	return s
}

func showRule(r outbox.Rule) shownRule {
	shown := shownRule{Topics: r.Topics, Order: r.Order.String(), MaxAttempts: attempts(r.MaxAttempts),
		TimeoutSeconds: r.Timeout.Seconds(), OnExpired: []string{"", "drop", "dead"}[r.OnExpired]}
	if p := r.Retry; p != nil {
		shown.Retry = &retry{p.Base.Seconds(), p.Max.Seconds(), p.Jitter, p.DisableJitter}
	}
	return shown
}

func (s shownConfig) rows() (rows [][]string) {
	rows = append(rows, []string{"SETTING", "VALUE", "SOURCE"})
	for _, set := range s.Settings {
		rows = append(rows, []string{set.Key, cmp.Or(set.Value, "-"), set.Source})
	}
	for _, d := range s.Destinations {
		words := []string{cmp.Or(d.URL, d.URLFile)}
		for _, name := range slices.Sorted(maps.Keys(d.Options)) {
			words = append(words, name+"="+d.Options[name])
		}
		if d.Slots != 0 {
			words = append(words, "slots="+strconv.Itoa(d.Slots))
		}
		rows = append(rows, []string{"destination " + d.Name, strings.Join(words, " ")})
	}
	for _, r := range s.Routes {
		rows = append(rows, []string{"route " + strings.Join(r.Topics, " "), "to " + r.To})
	}
	for _, r := range s.Rules {
		rows = append(rows, []string{"rule " + strings.Join(r.Topics, " "), r.words()})
	}
	return rows
}

func (r shownRule) words() string {
	var words []string
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	add("order", r.Order)
	switch r.MaxAttempts {
	case 0:
	case outbox.Unlimited:
		add("max_attempts", "unlimited")
	default:
		add("max_attempts", strconv.Itoa(int(r.MaxAttempts)))
	}
	if r.TimeoutSeconds != 0 {
		add("timeout", seconds(r.TimeoutSeconds).String())
	}
	add("on_expired", r.OnExpired)
	if r.Retry != nil {
		r.Retry.words(add)
	}
	return strings.Join(words, " ")
}

func (p *retry) words(add func(name, value string)) {
	if p.BaseSeconds != 0 {
		add("retry.base", seconds(p.BaseSeconds).String())
	}
	if p.MaxSeconds != 0 {
		add("retry.max", seconds(p.MaxSeconds).String())
	}
	switch {
	case p.JitterOff:
		add("retry.jitter", "off")
	case p.Jitter != 0:
		add("retry.jitter", strconv.FormatFloat(p.Jitter, 'g', -1, 64))
	}
}
