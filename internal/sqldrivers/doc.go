// Package sqldrivers tests publishing through drivers of database/sql. It is apart from package pgstore, because what
// the tests of pgstore import gets into the go.sum of the modules that import pgstore.
package sqldrivers
