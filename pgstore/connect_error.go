package pgstore

import (
	"crypto/x509"
	"errors"

	"github.com/outboxrelay/outbox/internal/connecting"
)

// explainConnect makes the error of a failed connection short, and adds what to set right if the server's certificate was refused.
func explainConnect(err error) error {
	err = connecting.Explain(err)
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return &adviceError{"the server's certificate is of an authority that is not trusted", "set sslrootcert in the database URL to the file of the right one", err}
	case errors.As(err, &host):
		return &adviceError{"the server's certificate is for another host", "in the database URL, set host to a name that it is for", err}
	case errors.As(err, &invalid):
		return &adviceError{"the server's certificate is not valid", "renew it, or set the clock", err}
	}
	return err
}

// adviceOf is what an error advises, or else something.
func adviceOf(err error, otherwise string) string {
	var advised *adviceError
	if errors.As(err, &advised) {
		return advised.advice
	}
	return otherwise
}
