package pgstore

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed migrations
var migrationFiles embed.FS

// migration is one step of the schema: a folder NNNN_name of numbered files that run in order, and of down.sql,
// which takes them back. A released migration is never edited.
type migration struct {
	version int
	name    string
	up      []sqlFile
	down    string
}

type sqlFile struct{ name, text string }

var migrationFolder = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)$`)

// readMigrations returns the migrations of a folder, which are numbered from 1 without gaps.
func readMigrations(files fs.FS, root string) ([]migration, error) {
	folders, err := fs.ReadDir(files, root)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var all []migration
	for _, folder := range folders {
		match := migrationFolder.FindStringSubmatch(folder.Name())
		if match == nil {
			return nil, fmt.Errorf("read migrations: folder %q is not named like 0001_name", folder.Name())
		}
		m := migration{name: match[2]}
		m.version, _ = strconv.Atoi(match[1]) // four digits
		if m.version != len(all)+1 {
			return nil, fmt.Errorf("read migrations: %s follows version %d", folder.Name(), len(all))
		}
		if err := m.read(files, path.Join(root, folder.Name())); err != nil {
			return nil, fmt.Errorf("read migration %s: %w", folder.Name(), err)
		}
		all = append(all, m)
	}
	return all, nil
}

func (m *migration) read(files fs.FS, dir string) error {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if path.Base(name) == "down.sql" {
			m.down = string(text)
			continue
		}
		m.up = append(m.up, sqlFile{path.Base(name), string(text)})
	}
	if len(m.up) == 0 || m.down == "" {
		return fmt.Errorf("needs at least one numbered file and a down.sql")
	}
	return nil
}

// minCompatible is the lowest schema version whose programs work with this migration applied: the one before, which
// is what makes rolling updates possible.
func (m *migration) minCompatible() int { return max(1, m.version-1) }

// script is everything that the migration runs, and its line in the table migration.
func (m *migration) script(schema string) string {
	var b strings.Builder
	for _, file := range m.up {
		fmt.Fprintf(&b, "-- %04d_%s/%s\n%s\n", m.version, m.name, file.name, strings.TrimSpace(file.text))
	}
	fmt.Fprintf(&b, "insert into outbox.migration (version, name, min_compatible) values (%d, '%s', %d);\n",
		m.version, m.name, m.minCompatible())
	return render(b.String(), schema)
}

// created finds what a migration creates, and whether it is a partition: those come and go.
var created = regexp.MustCompile(`(?m)^create (?:or replace )?(table|sequence|view|function) outbox\.([a-z_]+)( partition of)?`)

// relationNames are the tables, sequences and views that the migrations create.
func relationNames(ms []migration) []string {
	return createdNames(ms, func(kind string) bool { return kind != "function" })
}

// functionNames are the functions that the migrations create.
func functionNames(ms []migration) []string {
	return createdNames(ms, func(kind string) bool { return kind == "function" })
}

func createdNames(ms []migration, want func(kind string) bool) []string {
	var names []string
	for _, m := range ms {
		for _, file := range m.up {
			for _, match := range created.FindAllStringSubmatch(file.text, -1) {
				if want(match[1]) && match[3] == "" {
					names = append(names, match[2])
				}
			}
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}
