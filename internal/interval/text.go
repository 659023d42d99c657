// Package interval writes durations for PostgreSQL.
package interval

import (
	"fmt"
	"time"
)

// Text is d in microseconds, rounded up so that nothing positive becomes zero; "" for zero. Hours are the
// largest unit, because older servers refuse more than 2³¹ of the smaller ones.
func Text(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	micros := int64(d / time.Microsecond)
	if d%time.Microsecond != 0 {
		micros++
	}
	seconds := micros / 1e6
	return fmt.Sprintf("%d:%02d:%02d.%06d", seconds/3600, seconds/60%60, seconds%60, micros%1e6)
}
