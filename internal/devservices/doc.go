// Package devservices runs private servers for tests, benchmarks and demos: each in a temporary folder, on a free
// loopback port, and gone when the process that asked for it is gone, however that ended.
//
// This package holds what all services share: the [Supervisor], the account that servers run under, free ports, and
// the policy for a service whose program is not installed. Each service is a package of its own below this one, so
// that a test that needs PostgreSQL does not pull the clients of brokers into its build. Unix only.
package devservices
