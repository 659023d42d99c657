// Package spell finds the name that somebody meant.
package spell

// near is how many letters of a misspelt name may be wrong, missing, added or swapped.
const near = 2

// Nearest returns the known name that is nearest to the given one, empty if none is near: at most two letters wrong,
// missing, added or swapped, and fewer than half of the name's.
func Nearest(name string, known []string) string {
	best, found := near+1, ""
	for _, candidate := range known {
		d := distance(name, candidate)
		if d < best && 2*d < max(len(name), 2) {
			best, found = d, candidate
		}
	}
	return found
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
