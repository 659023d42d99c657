package outbox

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// ID is a UUID: of a message (version 7, so that ids sort by the time they were made), of a relay.
// It converts to and from any other UUID type whose underlying type is [16]byte.
type ID [16]byte

// NewID makes a version 7 UUID. It panics only if the system's source of randomness fails.
func NewID() ID {
	return ID(uuid.Must(uuid.NewV7()))
}

// ParseID reads a UUID in its canonical text form.
func ParseID(s string) (ID, error) {
	u, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return ID{}, fmt.Errorf("id %q is not a UUID such as 0192f5a4-7d3c-7f2a-9c1b-0a1b2c3d4e5f", s)
	}
	return ID(u), nil
}

// String returns the canonical lower-case form.
func (id ID) String() string {
	b, _ := id.MarshalText()
	return string(b)
}

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText returns the canonical lower-case form.
func (id ID) MarshalText() ([]byte, error) {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return b[:], nil
}

// UnmarshalText reads the canonical form.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}
