// Package rabbitdev runs private RabbitMQ nodes, and gives tests one to share.
//
// A node has its own name, cookie, home, port mapper, ports and folder, all on the loopback interface, so nodes of
// several processes and one that the machine runs as a service do not meet.
package rabbitdev
