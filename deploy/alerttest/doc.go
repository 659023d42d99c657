// Package alerttest evaluates the alert rules of deploy/ with Prometheus' own code on the cases of alerts_test.yaml. It is a
// module of its own, which keeps Prometheus out of the others.
package alerttest
