// Package sqldrivers tests publishing through drivers of database/sql. It is apart from package pgstore so that the
// drivers do not become requirements of the modules that import pgstore.
package sqldrivers
