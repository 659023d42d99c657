package pgtest

import (
	"flag"
	"runtime"
	"strconv"
)

// parallelFlag is go test's flag for how many tests run at a time.
const parallelFlag = "test.parallel"

// letRun lets n tests run at a time for each processor, unless the command line says how many.
func letRun(n int) error {
	flag.Parse()
	if n < 1 || given(parallelFlag) {
		return nil
	}
	return flag.Lookup(parallelFlag).Value.Set(strconv.Itoa(n * runtime.GOMAXPROCS(0)))
}

func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}
