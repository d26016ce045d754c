package repository_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/confine/repository"
)

// Whatever the form of a file of settings: other values of a remote that was there are found, and its own are not.
func TestReaddressed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"origin", "a.b", "Über", "x y"}).Draw(t, "name")
		write := func(label, key, value string) string {
			form := rapid.SampledFrom([]string{"[remote %q]\n\t%s = %s\n", "[REMOTE %q]\n%s=%s # note\n", "[remote %q] %s = \"%s\"\n", "[remote  %q]\n; note\n\t%s = %s\n"}).Draw(t, label)
			return fmt.Sprintf(form, name, rapid.SampledFrom([]string{key, strings.ToUpper(key)}).Draw(t, label+"key"), value)
		}
		was := write("was", "url", "https://good.test")
		same := write("same", "url", "https://good.test") + write("more", "fetch", "+refs/heads/*:refs/remotes/x/*")
		if why := repository.Readdressed(was, same, false); why != "" {
			t.Fatalf("%s\n%s\n%s", why, was, same)
		}
		more := rapid.SampledFrom([]string{
			write("evil", "url", "https://evil.test"), write("push", "pushurl", "https://evil.test"), write("fetch", "fetch", "refs/heads/*:refs/heads/*"),
		}).Draw(t, "change")
		for _, now := range []string{was + more, more + was, same + more, more, ""} {
			if repository.Readdressed(was, now, false) == "" || repository.Readdressed("", now, true) == "" && now != "" {
				t.Fatalf("not found:\n%s\n%s", was, now)
			}
		}
	})
}
