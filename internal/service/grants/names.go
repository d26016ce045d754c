package grants

import (
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/policies"
)

// ReadNames replaces each @FILE in a list of names by the names in that file, one per line.
// Nil stays nil.
func ReadNames(names []string) ([]string, error) {
	if names == nil {
		return nil, nil
	}
	out := []string{}
	for _, n := range names {
		file, ok := strings.CutPrefix(n, "@")
		if !ok {
			out = append(out, n)
			continue
		}
		b, err := wholefile.Read(filepath.Clean(file), policies.MaxPolicySize)
		if err != nil {
			return nil, fault.Wrap(fault.Usage, err, "the list %q cannot be read: %v", file, wholefile.Cause(err))
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				out = append(out, line)
			}
		}
	}
	return out, nil
}
