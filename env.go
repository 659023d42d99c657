package outbox

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox/internal/spell"
)

// ConfigFromEnv reads the scalar settings from environment variables named prefix plus POLL_INTERVAL, LEASE,
// DRAIN_TIMEOUT, HANDLER_TIMEOUT, MAX_ATTEMPTS, RETRY_BASE, RETRY_MAX, RETRY_JITTER, ORDER, DISABLE_RELAY and SAMPLE_INTERVAL;
// the usual prefix is "OUTBOX_". Unset, empty and zero mean the default. Durations need a unit and may have days
// (1d, 1d12h); MAX_ATTEMPTS may be "unlimited", RETRY_JITTER "off"; ORDER is skip, block, park or none;
// DISABLE_RELAY true or false.
//
// All problems come in one error. Other programs, stores among them, read variables with the same prefix, so a
// name that is not in the list above is only refused when it looks like a misspelling of one that is: at most
// two letters wrong, missing, added or swapped.
func ConfigFromEnv(prefix string) (Config, error) {
	return configFrom(prefix, os.Environ())
}

func configFrom(prefix string, environ []string) (Config, error) {
	var c Config
	settings := c.envSettings()
	var errs []error
	for _, entry := range environ {
		variable, value, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, prefix)
		if !ours || value == "" {
			continue
		}
		if set, known := settings[name]; !known {
			errs = append(errs, checkMisspelt(prefix, name, value, settings))
		} else if err := set(value); err != nil {
			errs = append(errs, fieldError(variable, value, err.Error()))
		}
	}
	errs = append(errs, c.check())
	return c, errors.Join(errs...)
}

// Set sets one scalar setting from text, under the name that its variable has for ConfigFromEnv, in lower case:
// "poll_interval", "retry_base". The error is a *FieldError with that name; NewRelay checks the bounds.
func (cfg *Config) Set(name, text string) error {
	set := cfg.envSettings()[strings.ToUpper(name)]
	if set == nil {
		return fieldError(name, text, "there is no such setting")
	}
	if err := set(text); err != nil {
		return fieldError(name, text, err.Error())
	}
	return nil
}

// envSettings are the setters of the scalar settings by the names of their variables.
func (cfg *Config) envSettings() map[string]func(string) error {
	return map[string]func(string) error{
		"POLL_INTERVAL":   durationSetting(&cfg.PollInterval),
		"LEASE":           durationSetting(&cfg.Lease),
		"DRAIN_TIMEOUT":   durationSetting(&cfg.DrainTimeout),
		"HANDLER_TIMEOUT": durationSetting(&cfg.HandlerTimeout),
		"MAX_ATTEMPTS":    attemptsSetting(&cfg.MaxAttempts),
		"RETRY_BASE":      durationSetting(&cfg.Retry.Base),
		"RETRY_MAX":       durationSetting(&cfg.Retry.Max),
		"RETRY_JITTER":    jitterSetting(&cfg.Retry),
		"ORDER":           orderSetting(&cfg.Order),
		"DISABLE_RELAY":   boolSetting(&cfg.DisableRelay),
		"SAMPLE_INTERVAL": durationSetting(&cfg.SampleInterval),
	}
}

func durationSetting(to *time.Duration) func(string) error {
	return func(s string) (err error) {
		*to, err = ParseDuration(s)
		return err
	}
}

func attemptsSetting(to *int) func(string) error {
	return func(s string) error {
		if s == "unlimited" {
			*to = Unlimited
			return nil
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return errors.New("must be a whole number, 1 or more, or unlimited")
		}
		*to = n
		return nil
	}
}

// jitterSetting: zero is the default, as everywhere; what switches it off is a word.
func jitterSetting(to *RetryPolicy) func(string) error {
	return func(s string) error {
		if s == "off" {
			to.Jitter, to.DisableJitter = 0, true
			return nil
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return errors.New("must be a number above 0 and at most 1, or off")
		}
		to.Jitter, to.DisableJitter = f, false
		return nil
	}
}

func orderSetting(to *Order) func(string) error {
	return func(s string) error {
		for o := OrderSkip; o <= OrderNone; o++ {
			if s == o.String() {
				*to = o
				return nil
			}
		}
		return errors.New("must be skip, block, park or none")
	}
}

func boolSetting(to *bool) func(string) error {
	return func(s string) error {
		switch s {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}
}

// ParseDuration reads a duration as settings give it: as time.ParseDuration does, with d for days of 24
// hours, and never without a unit.
func ParseDuration(s string) (time.Duration, error) {
	const bound = "must be a duration with a unit, such as 1.5s, 20m or 1d12h"
	const maxDays = 100_000
	rest, total := s, time.Duration(0)
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return 0, errors.New(bound)
		}
		rest, total = after, time.Duration(n)*24*time.Hour
		if rest == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest == "0" || rest != s && d < 0 || d > math.MaxInt64-total {
		return 0, errors.New(bound)
	}
	return total + d, nil
}

// checkMisspelt refuses a name that is nearly one of the settings.
func checkMisspelt(prefix, name, value string, settings map[string]func(string) error) error {
	known := spell.Nearest(name, slices.Sorted(maps.Keys(settings)))
	if known == "" {
		return nil
	}
	return fieldError(prefix+name, value, fmt.Sprintf("there is no such setting; did you mean %s%s?", prefix, known))
}
