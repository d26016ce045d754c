package cli

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/runs"
)

// learning reads the flags of --learn. An existing output file is refused before the
// command starts, because the command may take long.
func learning(q *runs.ExecRequest, learn, profile bool, out string) error {
	switch {
	case !learn && out != "-":
		return fault.New(fault.Usage, "--output needs --learn").WithHint("to keep the command's output, redirect it with >")
	case !learn:
		return nil
	case profile:
		return fault.New(fault.Usage, "--learn and --profile cannot be combined").WithHint("--learn runs the command, --profile does not")
	}
	if q.Learn = "learned"; out == "-" {
		return nil
	}
	if _, err := os.Lstat(out); err == nil {
		return fault.New(fault.Usage, "%q already exists", out).WithHint("name a new file, or remove this one")
	}
	if name := strings.TrimSuffix(path.Base(out), path.Ext(out)); name != "" {
		q.Learn = name
	}
	return nil
}

// printLearned writes the policy that was learned.
func (s *session) printLearned(res runs.ExecResult, out string) error {
	l := res.Learned
	switch {
	case l == nil:
		return nil
	case s.json:
		return s.printJSON(map[string]any{"policy": string(l.Policy), "run": res.ID.String(), "refused": l.Refused, "unseen": l.Unseen})
	}
	var err error
	if out == "-" {
		err = s.toFile(out, func(w io.Writer) error { _, err := w.Write(l.Policy); return err })
	} else {
		err = writeNew(out, l.Policy)
	}
	if err != nil {
		return err
	}
	if out != "-" {
		s.errorf("written to %s; try it: remit exec -p %[1]s -- ...\n", show(out))
	}
	if l.Refused > 0 {
		s.errorf("%s refused while learning, listed as comments in the policy\n", counted(l.Refused, "action"))
	}
	if l.Unseen > 0 {
		s.errorf("%s could not be observed, or exceeded the limit: not in the policy\n", counted(l.Unseen, "further action"))
	}
	return nil
}

// writeNew writes a file that must not exist yet.
func writeNew(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%q cannot be written: %v", file, errors.Unwrap(err))
	}
	if _, err = f.Write(b); err == nil {
		return f.Close()
	}
	return fault.Wrap(fault.Usage, errors.Join(err, f.Close()), "%q cannot be written", file)
}
