package secret

import (
	"errors"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"
)

// Ring is a keyring that may hold values.
type Ring interface {
	Set(name, value string) error
	Get(name string) (string, error)
	Remove(name string) error
}

// ringTimeout is how long the keyring may take: it may ask its owner to unlock it.
const ringTimeout = 30 * time.Second

// System gives the keyring of the operating system, for the values of one
// folder. Lookup reads the variables that say whether there is a keyring. Nil
// means that there is none: on Linux it is reached only through a session bus
// that is there already.
func System(home string, lookup func(name string) (string, bool)) Ring {
	if runtime.GOOS == "linux" {
		if bus, _ := lookup("DBUS_SESSION_BUS_ADDRESS"); bus == "" {
			return nil
		}
	}
	return system{"remit " + home}
}

// system is a keyring that knows the values by a service's name.
type system struct{ service string }

var errSlow = errors.New("the keyring did not answer in time")

// within gives up waiting for a keyring that does not answer; what waits then
// ends with the process.
func within(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	t := time.NewTimer(ringTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errSlow
	}
}

func (s system) Set(name, value string) error {
	return within(func() error {
		if err := keyring.Set(s.service, name, value); err != nil {
			return err
		}
		// Some take a value and give back another.
		back, err := keyring.Get(s.service, name)
		if err == nil && back != value {
			err = errors.Join(errors.New("the keyring changed the value"), keyring.Delete(s.service, name))
		}
		return err
	})
}

func (s system) Get(name string) (string, error) {
	var value string
	err := within(func() error {
		v, err := keyring.Get(s.service, name)
		value = v
		return err
	})
	if err != nil { // value may still be written to
		return "", err
	}
	return value, nil
}

func (s system) Remove(name string) error {
	return within(func() error {
		if err := keyring.Delete(s.service, name); !errors.Is(err, keyring.ErrNotFound) {
			return err
		}
		return nil
	})
}
