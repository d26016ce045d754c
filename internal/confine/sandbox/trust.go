package sandbox

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// hostBundles are where systems keep the certificates that they trust.
var hostBundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}

// TrustBundle is what the host trusts, and the proxy's own certificate.
func TrustBundle(ca []byte) []byte {
	for _, name := range hostBundles {
		if b, err := os.ReadFile(name); err == nil {
			return slices.Concat(b, []byte("\n"), ca)
		}
	}
	return ca
}

// WithVariables is an environment with these variables, which take the place of its own.
func WithVariables(env []string, vars map[string]string) []string {
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := vars[name]
		return ours
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}
