//go:build !failpoint

package failpoint

// Enabled reports whether the program was built with the tag.
const Enabled = false

// Hit marks a point; see the package.
func Hit(name string) {}
