// Package fence holds the rules of the repository that the compiler does not know, as tests.
package fence
