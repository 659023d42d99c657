package outbox

import (
	"cmp"
	"time"
)

// policy is what the configuration and its rules say about one topic.
type policy struct {
	order       Order
	maxAttempts int
	timeout     time.Duration
	retry       RetryPolicy
	onExpired   OnExpired
}

// policies finds the policy of a topic.
type policies struct {
	rules []policyRule
	rest  policy // of topics that no rule covers
}

type policyRule struct {
	topics []string
	policy
}

func newPolicies(c Config) policies {
	p := policies{rest: policy{
		order: c.Order, maxAttempts: c.MaxAttempts, timeout: c.HandlerTimeout, retry: c.Retry, onExpired: ExpiredDrop,
	}}
	for _, rule := range c.Rules {
		p.rules = append(p.rules, policyRule{rule.Topics, p.rest.override(rule)})
	}
	return p
}

func (p policy) override(r Rule) policy {
	p.order = cmp.Or(r.Order, p.order)
	p.maxAttempts = cmp.Or(r.MaxAttempts, p.maxAttempts)
	p.timeout = cmp.Or(r.Timeout, p.timeout)
	p.onExpired = cmp.Or(r.OnExpired, p.onExpired)
	if r.Retry != nil {
		p.retry = r.Retry.withDefaults()
	}
	return p
}

// of returns the policy of the first rule that covers the topic.
func (p *policies) of(topic string) *policy {
	for i := range p.rules {
		for _, pattern := range p.rules[i].topics {
			if MatchTopic(pattern, topic) {
				return &p.rules[i].policy
			}
		}
	}
	return &p.rest
}

// unordered is the set of topics whose order is none, in the form that stores evaluate.
func (p *policies) unordered() TopicSet {
	var set TopicSet
	for _, rule := range p.rules {
		for _, pattern := range rule.topics {
			set = append(set, TopicPattern{Pattern: pattern, In: rule.order == OrderNone})
		}
	}
	if p.rest.order == OrderNone {
		set = append(set, TopicPattern{Pattern: ">", In: true})
	}
	if set.IsEmpty() {
		return nil
	}
	return set
}

// attempts returns how many attempts a message has.
func (p *policy) attempts(d *Delivery) int {
	return cmp.Or(d.MaxAttempts, p.maxAttempts)
}

// lines reports whether the message stands in line with others of its key.
func (p *policy) lines(d *Delivery) bool { return d.Key != "" && p.order != OrderNone }

// end is the outcome of a message that another attempt would not help: dead, unless its key is blocked. It never
// comes back sooner than was asked for.
func (p *policy) end(d *Delivery, asked time.Duration) Outcome {
	if p.order == OrderBlock && d.Key != "" {
		return Outcome{Kind: Retried, Delay: max(p.retry.Max, asked)}
	}
	return Outcome{Kind: Died, Holds: p.order == OrderPark && d.Key != ""}
}
