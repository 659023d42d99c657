package main

import (
	"errors"
	"slices"
)

// closers end what was started, the last first, once.
type closers struct{ list []func() error }

func (c *closers) add(end func() error) { c.list = append(c.list, end) }

func (c *closers) close() error {
	var errs []error
	for _, end := range slices.Backward(c.list) {
		errs = append(errs, end())
	}
	c.list = nil
	return errors.Join(errs...)
}
