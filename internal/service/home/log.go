package home

import (
	"path/filepath"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/eventlog"
)

// logFiles are the open log files.
type logFiles struct {
	mu  sync.Mutex
	log *eventlog.Log // nil: not opened yet
}

// Log gives the log files below $REMIT_HOME/logs, opening them on first use.
func (h *Home) Log() (*eventlog.Log, error) {
	h.logs.mu.Lock()
	defer h.logs.mu.Unlock()
	if h.logs.log != nil {
		return h.logs.log, nil
	}
	l, err := eventlog.Open(filepath.Join(h.Dir, "logs"), eventlog.Options{Level: h.Settings.LogLevel, Redactor: h.Redactor()})
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the logs cannot be written: %v", wholefile.Cause(err))
	}
	h.logs.log = l
	return l, nil
}

// Close closes the log files.
func (h *Home) Close() error {
	h.logs.mu.Lock()
	defer h.logs.mu.Unlock()
	if h.logs.log == nil {
		return nil
	}
	err := h.logs.log.Close()
	h.logs.log = nil
	return err
}
