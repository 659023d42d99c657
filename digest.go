package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// settingsDigest stands for the settings that decide what becomes of a message, so that operators see when two relays of a
// destination treat it differently. Defaults are filled in.
func settingsDigest(c *Config) string {
	text, err := json.Marshal(struct {
		MaxAttempts int
		Timeout     time.Duration
		Retry       RetryPolicy
		Order       Order
		Rules       []Rule
	}{c.MaxAttempts, c.HandlerTimeout, c.Retry, c.Order, c.Rules})
	if err != nil {
		return "" // a Jitter that is no number was refused before
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// MixedSettings returns the destinations that live relays deliver to under different rules: which of them has a message
// decides how often it is tried, or whether it holds its key. That is normal while a rollout lasts.
func (s *Status) MixedSettings() (destinations []string) {
	digests, mixed := map[string]string{}, map[string]bool{}
	for _, r := range s.Relays {
		if !r.Live || r.Settings == "" {
			continue
		}
		for _, l := range r.Lanes {
			before, known := digests[l.Destination]
			digests[l.Destination] = r.Settings
			if known && before != r.Settings && !mixed[l.Destination] {
				mixed[l.Destination] = true
				destinations = append(destinations, l.Destination)
			}
		}
	}
	return destinations
}
