// Package orm shows how to publish in the transaction of an ORM or driver: a file each, to be copied.
//
// Every PlaceOrder function writes a row of the application's table and publishes a message about it, in one
// transaction: when it commits, both are there, and otherwise neither.
package orm
