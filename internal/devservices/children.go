package devservices

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Children lists the processes whose parent is the given one.
func Children(parent int) ([]int, error) {
	table, err := processTable()
	if err != nil {
		return nil, fmt.Errorf("children of process %d: %w", parent, err)
	}
	var children []int
	for pid, ppid := range table {
		if ppid == parent {
			children = append(children, pid)
		}
	}
	return children, nil
}

// processTable maps each process to its parent. Minimal Linux images have no ps, other systems no /proc.
func processTable() (map[int]int, error) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		return processTableByPS()
	}
	table := make(map[int]int, len(stats))
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name) state ppid …, where the name may hold anything.
		s := string(text)
		fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 1 {
			table[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return table, nil
}

func processTableByPS() (map[int]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	table := map[int]int{}
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil {
			table[pid] = ppid
		}
	}
	return table, nil
}
