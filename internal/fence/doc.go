// Package fence tests what the project's packages import and what a module that imports them is made to require.
package fence
