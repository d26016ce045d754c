package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Outbox keeps notifications until they were delivered, as files of a folder: waiting ones in it,
// and abandoned ones in its folder dead. It does not need the ledger, since some of them tell that
// the ledger cannot be written.
type Outbox struct{ Dir string }

// Kept is a notification for one channel.
type Kept struct {
	Channel  string    `json:"channel"`
	Event    Event     `json:"event"`
	Attempts int       `json:"attempts"`
	Next     time.Time `json:"next"` // not tried before; another process may be trying until then
	Error    string    `json:"error,omitempty"`
	Dead     bool      `json:"dead"`
}

const (
	deadFolder  = "dead"
	maxKept     = 1000 // that wait
	maxDead     = 200  // the newest are kept
	maxAttempts = 20
	maxAge      = 3 * 24 * time.Hour
	maxKeptFile = 64 << 10
	claim       = 5 * time.Minute // longer than one process tries by itself
)

// file names the file of a notification, the same for the same event and channel.
func (k *Kept) file() string {
	sum := sha256.Sum256([]byte(k.Channel + "\x00" + k.Event.Kind + "\x00" + k.Event.ID))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// put writes a notification.
func (o *Outbox) put(k *Kept) error {
	dir, other := o.Dir, filepath.Join(o.Dir, deadFolder)
	if k.Dead {
		dir, other = other, dir
	}
	b, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = wholefile.Replace(filepath.Join(dir, k.file()), b)
	}
	if err == nil {
		err = remove(filepath.Join(other, k.file()))
	}
	return err
}

// add keeps a new notification, which this process is about to send.
func (o *Outbox) add(channel string, e Event) (*Kept, error) {
	list, err := os.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(list) > maxKept {
		return nil, fault.New(fault.LimitReached, "%d notifications wait already", maxKept)
	}
	k := &Kept{Channel: channel, Event: e, Next: time.Now().Add(claim)}
	return k, o.put(k)
}

// settle notes the result of attempts: the notification is removed, waits for the next one, or
// is dead.
func (o *Outbox) settle(k *Kept, err error, now time.Time) error {
	if err == nil {
		return errors.Join(remove(filepath.Join(o.Dir, k.file())), remove(filepath.Join(o.Dir, deadFolder, k.file())))
	}
	k.Attempts++
	k.Error = safeText(err.Error(), maxTitle)
	k.Dead = errors.Is(err, errPermanent) || k.Attempts >= maxAttempts || now.Sub(k.Event.At) > maxAge || !k.Event.Until.IsZero() && now.After(k.Event.Until)
	k.Next = now.Add(pause(k.Attempts))
	if perr := o.put(k); perr != nil {
		return perr
	}
	if k.Dead {
		return o.bury()
	}
	return nil
}

// pause is how long to wait after a number of attempts: twice as long each time, up to an
// hour, and up to a quarter more by chance, so that not all that failed together come together.
func pause(attempts int) time.Duration {
	d := min(30*time.Second<<min(attempts, 7), time.Hour)
	return d + rand.N(d/4)
}

// bury removes the oldest of too many dead ones.
func (o *Outbox) bury() error {
	list, err := o.List()
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(k Kept) bool { return !k.Dead })
	for len(list) > maxDead {
		if err := remove(filepath.Join(o.Dir, deadFolder, list[0].file())); err != nil {
			return err
		}
		list = list[1:]
	}
	return nil
}

// List returns all, the oldest first. A file that cannot be read is left out.
func (o *Outbox) List() ([]Kept, error) {
	out := []Kept{}
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, deadFolder)} {
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range list {
			if !strings.HasSuffix(e.Name(), ".json") {
				continue
			}
			var k Kept
			b, err := wholefile.ReadRegular(filepath.Join(dir, e.Name()), maxKeptFile)
			if err == nil && json.Unmarshal(b, &k) == nil && k.file() == e.Name() {
				k.Dead = dir != o.Dir
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, func(a, b Kept) int { return a.Event.At.Compare(b.Event.At) })
	return out, nil
}

// Count returns how many notifications wait, and how many were given up.
func (o *Outbox) Count() (waiting, dead int) {
	list, err := o.List()
	if err != nil {
		return 0, 0 // remit notify says why
	}
	for _, k := range list {
		if k.Dead {
			dead++
		} else {
			waiting++
		}
	}
	return waiting, dead
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
