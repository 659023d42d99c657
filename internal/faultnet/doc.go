// Package faultnet puts a TCP proxy between a client and a server that can be late or slow, stop carrying bytes without closing
// anything, as a firewall that forgets a connection does, or cut all connections.
package faultnet
