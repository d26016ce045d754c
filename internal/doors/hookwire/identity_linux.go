package hookwire

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Identify returns a text that is the same for a path as long as the same file is there, unchanged.
func Identify(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", err
	}
	text := ""
	for _, n := range []int64{int64(st.Dev), int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()} { //nolint:gosec // compared only
		text += strconv.FormatInt(n, 36) + "."
	}
	return text, nil
}

// KeeperSocket is the path of the keeper's socket in the folder that a descriptor is open at. A path
// through the descriptor is short enough for every folder.
func KeeperSocket(folder int) string {
	return "/proc/self/fd/" + strconv.Itoa(folder) + "/keeper.sock"
}
