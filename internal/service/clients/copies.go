package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// UseCopies makes agents start copies of the programs in a folder, if this program is in the cache of npx, pnpm dlx or
// bunx: such a cache may be deleted at any time. [Clients.Install] makes the copies.
func (s *Clients) UseCopies(folder string) {
	cached := slices.ContainsFunc(strings.Split(s.Exe, "/"), func(name string) bool {
		return name == "_npx" || name == "dlx" || strings.HasPrefix(name, "dlx-") || strings.HasPrefix(name, "bunx-")
	})
	if !cached {
		return
	}
	at := func(program string) string { return filepath.Join(folder, filepath.Base(program)) }
	s.copies = map[string]string{s.Exe: at(s.Exe)}
	s.Exe = at(s.Exe)
	if s.Hook != "" {
		s.copies[s.Hook] = at(s.Hook)
		s.Hook = at(s.Hook)
	}
}

// CopiesTo is the folder to which an installation copies the programs; "": it copies none.
func (s *Clients) CopiesTo() string {
	if len(s.copies) == 0 {
		return ""
	}
	return filepath.Dir(s.Exe)
}

// copyPrograms makes the copies. Programs that are there already are replaced, each in one step.
func (s *Clients) copyPrograms() error {
	for from, to := range s.copies {
		program, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = wholefile.ReplaceMode(to, program, 0o755)
		}
		if err != nil {
			return fault.Wrap(fault.Usage, err, "%s cannot be copied to %s", from, to).
				WithHint("install Remit where agents can start it later, as by npm install --global remit, and run that program")
		}
	}
	return nil
}
