package rabbitsink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/shellword"
)

// explain gives errors the words of an operator, and keeps them the same from try to try. What an operator has to set
// right is outbox.Misconfigured.
func explain(err error, cfg *Config) error {
	var e *amqp.Error
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var file *fs.PathError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate):
		return outbox.Misconfigured(fmt.Errorf("the server's certificate is not trusted: %w", untrusted(certificate)))
	case errors.As(err, &file): // of the client's certificate, or the authorities
		return outbox.Misconfigured(err)
	case errors.As(err, &record):
		return outbox.Misconfigured(fmt.Errorf("the port has no TLS, as an amqps: URL wants it; give RabbitMQ's TLS port, usually 5671, or an amqp: URL: %w", err))
	case errors.As(err, &op): // its text would name the local port, another one each time
		return op.Err
	case !errors.As(err, &e):
		return err
	}
	if errors.Is(err, amqp.ErrVhost) { // the client's guess: RabbitMQ says it if it refuses
		return errors.New("the connection was cut off when the virtual host was to be opened")
	}
	what, command := "", ""
	switch {
	case errors.Is(err, amqp.ErrSASL):
		what = "the server and the URL's auth_mechanism have no way to log in in common"
	case !e.Server && e.Code == amqp.FrameError: // the connection's end, in words that begin with the ports
		return errors.New(lastPart(e.Reason))
	case errors.Is(err, amqp.ErrCredentials) || e.Code == amqp.AccessRefused && contains(e, "login was refused"):
		what = "the login is refused, or was cut off; check user and password"
	case e.Code == amqp.AccessRefused && contains(e, "access to vhost"), e.Code == amqp.NotAllowed && contains(e, "vhost") && !contains(e, "limit"):
		what, command = "the virtual host does not exist or is not open to the user; check the URL's path, and let the user in", permit(e.Reason, cfg)
	case e.Code == amqp.NotFound:
		what = fmt.Sprintf("exchange %s does not exist; create it as a durable topic exchange, or let it be declared", cfg.Exchange)
	case e.Code == amqp.PreconditionFailed && contains(e, "inequivalent arg"):
		what = fmt.Sprintf("exchange %s exists with other properties than those of a durable topic exchange; delete it, name another, or only check it", cfg.Exchange)
	case e.Code == amqp.AccessRefused:
		what, command = fmt.Sprintf("access to exchange %s is refused; the user needs the permission to write to it, and to configure it if it is to be declared", cfg.Exchange), permit(e.Reason, cfg)
	default:
		return fmt.Errorf("RabbitMQ says: %s (%d)", e.Reason, e.Code)
	}
	return outbox.Misconfigured(&repairError{what, command, e})
}

// repairError is what is misconfigured, with the command that sets it right, if there is one.
type repairError struct {
	what, command string
	err           *amqp.Error
}

// Error is all of it, for logs and for what relays tell.
func (e *repairError) Error() string {
	what := e.what
	if e.command != "" {
		what += ": " + e.command
	}
	return fmt.Sprintf("%s (RabbitMQ says: %s, %d)", what, e.err.Reason, e.err.Code)
}

// Repair is the command, for those who tell it apart.
func (e *repairError) Repair() string { return e.command }

// refusal is how RabbitMQ says who may not do what where.
var (
	refusal   = regexp.MustCompile(`vhost '(.+)' refused for user '(.+)'`)
	noSuchOne = regexp.MustCompile(`vhost (.+) not found`)
)

// permit is the command that lets the user do what a refusal names; what the user may do otherwise in the virtual host has to
// be added to the expressions. Empty: the refusal names nothing.
func permit(reason string, cfg *Config) string {
	if match := noSuchOne.FindStringSubmatch(reason); match != nil {
		return "rabbitmqctl add_vhost " + shellword.Quote(match[1])
	}
	match := refusal.FindStringSubmatch(reason)
	if match == nil {
		return ""
	}
	exchange := shellword.Quote("^" + regexp.QuoteMeta(cfg.Exchange) + "$")
	configure := exchange
	if cfg.Passive {
		configure = "'^$'"
	}
	return fmt.Sprintf("rabbitmqctl set_permissions -p %s %s %s %s '^$'", shellword.Quote(match[1]), shellword.Quote(match[2]), configure, exchange)
}

// untrusted is why, without the time of the try, which is another one each time.
func untrusted(err *tls.CertificateVerificationError) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		c := invalid.Cert
		return fmt.Errorf("certificate of %s is valid from %s to %s only", c.Subject, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339))
	}
	return err
}

// redacted is a server's address without its user and password.
func redacted(node string) string {
	u, err := url.Parse(node)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

// lastPart is what follows the last colon.
func lastPart(text string) string {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
