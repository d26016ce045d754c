package home_test

import (
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/remitrun/remit/internal/service/home"
)

// TestThePersonIsTheAccount: $USER makes nobody a second person.
func TestThePersonIsTheAccount(t *testing.T) {
	want := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(want); err == nil {
		want = u.Username
	}
	for _, name := range []string{"bob", ""} {
		t.Setenv("USER", name)
		c, err := home.FromEnv([]string{"HOME=" + t.TempDir(), "USER=" + name})
		if err != nil {
			t.Fatal(err)
		}
		if c.User != want || home.Person() != "user:"+want {
			t.Errorf("with USER=%q: %q and %q; want %q", name, c.User, home.Person(), want)
		}
	}
}
