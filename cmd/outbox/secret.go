package main

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// secret is a URL that may hold a password: given as text, or in a file that is read whenever it is needed, because
// whoever rotates the password replaces the file.
type secret struct{ text, file string }

func (s secret) isSet() bool { return s.text != "" || s.file != "" }

func (s secret) read() (string, error) {
	if s.file == "" {
		return s.text, nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	url := strings.TrimSpace(string(text))
	if url == "" { // PostgreSQL's client would take it for the server on this machine
		return "", fmt.Errorf("read secret: %s is empty", s.file)
	}
	return url, nil
}

const masked = "***"

var (
	// A quote that is not closed goes to the end, and a backslash escapes a space.
	dsnPassword = regexp.MustCompile(`(?is)\b((?:ssl)?password|passfile)\s*=\s*('(?:[^'\\]|\\.)*(?:'|\\?$)|(?:[^\s\\]|\\.)+\\?)`)
	secretName  = regexp.MustCompile(`(?i)pass|pwd|token|secret|key`)
)

// mask returns a URL or connection string without what must not be shown. What it does not understand it shows
// nothing of.
func mask(text string) string {
	if text == "" {
		return ""
	}
	if strings.Contains(text, "=") && !strings.Contains(text, "://") {
		if shown := dsnPassword.ReplaceAllString(text, "$1="+masked); !strings.Contains(shown, "@") {
			return shown
		}
		return masked // the rest of a password, or a URL without its scheme
	}
	if list := strings.Split(text, ","); len(list) > 1 && strings.Count(text, "://") == len(list) {
		for i := range list {
			list[i] = mask(list[i])
		}
		return strings.Join(list, ",")
	}
	u, err := url.Parse(text)
	// An @ that does not end the user, or a #: something in the password was not escaped, or there is another URL behind.
	if err != nil || u.Scheme == "" || strings.Contains(text, "#") || u.User == nil && strings.Contains(text, "@") || strings.Contains(u.Path, "@") {
		return masked
	}
	return maskURL(u)
}

func maskURL(u *url.URL) string {
	c := *u
	user := ""
	if u.User != nil {
		c.User = nil
		user = url.User(u.User.Username()).String() + ":" + masked + "@"
		// A name without a password is a token, unless it is PostgreSQL's, which may need none.
		if _, has := u.User.Password(); !has {
			user = masked + "@"
			if strings.HasPrefix(u.Scheme, "postgres") {
				user = u.User.String() + "@"
			}
		}
	}
	c.RawQuery = maskQuery(u.RawQuery)
	head, rest, found := strings.Cut(c.String(), "//")
	if !found || user == "" {
		return c.String()
	}
	return head + "//" + user + rest
}

// maskQuery shows nothing behind a secret: an & in it that was not escaped looks like the end of it.
func maskQuery(query string) string {
	if query == "" {
		return ""
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, _, _ := strings.Cut(pair, "="); secretName.MatchString(name) {
			pairs[i] = name + "=" + masked
			return strings.Join(pairs[:i+1], "&")
		}
	}
	return strings.Join(pairs, "&")
}
