package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/spell"
)

// fields are the keys that a mapping may have, and what to do with their values. at is the whole key.
type fields map[string]func(at string, n *yaml.Node)

// readFile reads a configuration file. It walks the nodes itself, because a decoder would stop at the first problem
// and would not know what was meant.
func (l *loader) readFile(path string) {
	text, err := readConfigFile(path)
	if err != nil {
		l.problem("%v", err)
		return
	}
	l.c.file = path
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		l.problem("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		l.problem("%s: more than one document", path)
	}
	l.mapping("", doc.Content[0], l.topLevel())
}

// problemAt reports a problem with its line.
func (l *loader) problemAt(n *yaml.Node, format string, args ...any) {
	l.problem("%s:%d: %s", l.c.file, n.Line, fmt.Sprintf(format, args...))
}

func (l *loader) topLevel() fields {
	top := fields{"destinations": l.destinations, "routes": l.routes, "rules": l.rules}
	groups := map[string]fields{}
	for _, s := range l.known {
		set := func(at string, n *yaml.Node) { l.setting(s, at, n) }
		group, name, nested := strings.Cut(s.key, ".")
		if !nested {
			top[s.key] = set
			continue
		}
		if groups[group] == nil {
			groups[group] = fields{}
			top[group] = func(at string, n *yaml.Node) { l.mapping(at, n, groups[group]) }
		}
		groups[group][name] = set
	}
	return top
}

func (l *loader) setting(s setting, at string, n *yaml.Node) {
	text, ok := l.scalar(at, n)
	if !ok {
		return
	}
	if strings.HasSuffix(s.key, "_file") {
		text = inFolderOf(l.c.file, text)
	}
	l.give(s.key, text, origin{rankFile, fmt.Sprintf("file %s:%d", l.c.file, n.Line)})
}

// mapping calls each key's function; an unknown key and one that comes twice are problems.
func (l *loader) mapping(at string, n *yaml.Node, known fields) {
	l.entries(at, n, func(key string, k, v *yaml.Node) {
		set := known[key]
		if set == nil {
			nearest := spell.Nearest(key, slices.Sorted(maps.Keys(known)))
			if nearest != "" {
				nearest = join(at, nearest)
			}
			l.problemAt(k, "%s: there is no such key%s", join(at, key), didYouMean(nearest))
			return
		}
		set(join(at, key), v)
	})
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// entries calls each for the entries of a mapping. Nothing at all is an empty mapping.
func (l *loader) entries(at string, n *yaml.Node, each func(key string, k, v *yaml.Node)) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		l.problemAt(n, "%s: must be a mapping", describe(at))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || seen[k.Value] {
			l.problemAt(k, "%s: the key is there already, or is none", join(at, k.Value))
			continue
		}
		seen[k.Value] = true
		each(k.Value, k, v)
	}
}

func describe(at string) string {
	if at == "" {
		return "the file"
	}
	return at
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// list calls each for the elements of a list.
func (l *loader) list(at string, n *yaml.Node, each func(at string, n *yaml.Node)) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		l.problemAt(n, "%s: must be a list", at)
		return
	}
	for i, item := range n.Content {
		each(fmt.Sprintf("%s[%d]", at, i), item)
	}
}

// scalar is the text of a single value, with the environment in it.
func (l *loader) scalar(at string, n *yaml.Node) (text string, ok bool) {
	n = resolveAlias(n)
	if n.Kind != yaml.ScalarNode {
		l.problemAt(n, "%s: must be a single value", at)
		return "", false
	}
	if n.Tag == "!!null" {
		return "", true
	}
	return l.expand(at, n), true
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// expand replaces ${NAME} by the environment's value; $${ stands for ${.
func (l *loader) expand(at string, n *yaml.Node) string {
	return variable.ReplaceAllStringFunc(n.Value, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		name := found[2 : len(found)-1]
		l.used[name] = true
		value, ok := l.env[name]
		if !ok {
			l.unset = true
			l.problemAt(n, "%s: the variable %s is not set", at, name)
		}
		return value
	})
}

// into sets a text that a function may refuse.
func (l *loader) into(set func(text string) error) func(at string, n *yaml.Node) {
	return func(at string, n *yaml.Node) {
		text, ok := l.scalar(at, n)
		if !ok || text == "" {
			return
		}
		if err := set(text); err != nil {
			var refused *outbox.FieldError
			if errors.As(err, &refused) {
				err = errors.New(refused.Bound)
			}
			l.problemAt(n, "%s %q: %v", at, text, err)
		}
	}
}

func (l *loader) destinations(at string, n *yaml.Node) {
	l.entries(at, n, func(name string, _, v *yaml.Node) {
		d := &destination{name: name, at: join(at, name), options: map[string]string{}}
		l.c.destinations = append(l.c.destinations, d)
		l.mapping(d.at, v, l.destinationFields(d))
		if d.url.text != "" && d.url.file != "" {
			l.problemAt(v, "%s: url and url_file exclude each other", d.at)
		}
	})
}

func (l *loader) destinationFields(d *destination) fields {
	known := fields{
		"url":        func(at string, n *yaml.Node) { d.url.text, _ = l.scalar(at, n) },
		"url_file":   l.into(func(text string) error { d.url.file = inFolderOf(l.c.file, text); return nil }),
		"slots":      l.into(func(text string) error { return number(func(*config) *int { return &d.lane.slots })(l.c, text) }),
		"batch_size": l.into(func(text string) error { return number(func(*config) *int { return &d.lane.batchSize })(l.c, text) }),
		"ttl":        l.into(func(text string) error { return life(func(*config) *time.Duration { return &d.lane.ttl })(l.c, text) }),
		"broker_ttl": l.into(func(text string) error {
			return life(func(*config) *time.Duration { return &d.lane.brokerTTL })(l.c, text)
		}),
		"batch_bytes": l.into(func(text string) error { return size(func(_ *config, n int64) { d.lane.batchBytes = n })(l.c, text) }),
	}
	for _, o := range schemeOptions() {
		known[o.name] = l.into(func(text string) error {
			if strings.HasSuffix(o.name, "_file") {
				text = inFolderOf(l.c.file, text)
			}
			d.options[o.name] = text
			return o.check(text)
		})
	}
	return known
}

func (l *loader) routes(at string, n *yaml.Node) {
	l.list(at, n, func(at string, n *yaml.Node) {
		r := route{at: at}
		l.mapping(at, n, fields{
			"topics": l.topics(&r.topics),
			"to":     l.into(func(text string) error { r.to = text; return nil }),
		})
		l.c.routes = append(l.c.routes, r)
	})
}

func (l *loader) topics(to *[]string) func(at string, n *yaml.Node) {
	return func(at string, n *yaml.Node) {
		l.list(at, n, func(at string, n *yaml.Node) {
			if text, ok := l.scalar(at, n); ok {
				*to = append(*to, text)
			}
		})
	}
}

// rules are read by way of a whole configuration of the library, which knows how to read their values.
func (l *loader) rules(at string, n *yaml.Node) {
	l.list(at, n, func(at string, n *yaml.Node) {
		var rule outbox.Rule
		var c outbox.Config
		set := func(name string) func(string, *yaml.Node) {
			return l.into(func(text string) error { return c.Set(name, text) })
		}
		l.mapping(at, n, fields{
			"topics": l.topics(&rule.Topics), "order": set("order"), "max_attempts": set("max_attempts"), "timeout": set("handler_timeout"),
			"on_expired": l.into(func(text string) error { return setOnExpired(&rule, text) }),
			"retry": func(at string, n *yaml.Node) {
				l.mapping(at, n, fields{"base": set("retry_base"), "max": set("retry_max"), "jitter": set("retry_jitter")})
				rule.Retry = &c.Retry
			},
		})
		rule.Order, rule.MaxAttempts, rule.Timeout = c.Order, c.MaxAttempts, c.HandlerTimeout
		l.c.relay.Rules = append(l.c.relay.Rules, rule)
	})
}

func setOnExpired(rule *outbox.Rule, text string) error {
	switch text {
	case "drop":
		rule.OnExpired = outbox.ExpiredDrop
	case "dead":
		rule.OnExpired = outbox.ExpiredDead
	default:
		return errors.New("must be drop or dead")
	}
	return nil
}
