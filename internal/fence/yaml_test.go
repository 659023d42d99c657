package fence

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// strictly decodes all documents of a YAML text, each into what into returns for it; a key that is not known there, or
// there twice, is an error.
func strictly(text string, into func(number int) any) error {
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	dec.KnownFields(true)
	for i := 0; ; i++ {
		if err := dec.Decode(into(i)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
