package postgrestest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// diskSize is the room on a disk of a server's own.
const diskSize = "size=2g"

// Disk is the disk of a server: a file system in memory, in a mount namespace of its own.
type Disk struct {
	s      *Server
	folder string
	holder *exec.Cmd // keeps the namespace
	hold   io.Closer // the holder ends with it, and so it does with this process
}

// NewOnDisk is New with a disk that can be filled. It needs the right to mount.
func NewOnDisk(options string) (*Server, *Disk, func(), error) {
	bin, err := find()
	if err != nil {
		return nil, nil, nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	s := &Server{Socket: dir, data: filepath.Join(dir, "disk", "data"), bin: bin, more: options}
	d := &Disk{s: s, folder: filepath.Join(dir, "disk")}
	stop := func() {
		s.stop()
		d.release()
		_ = os.RemoveAll(dir) // the mount is gone
	}
	if err := errors.Join(os.Mkdir(d.folder, 0o777), d.mount()); err != nil {
		stop()
		return nil, nil, nil, err
	}
	if err := s.begin(); err != nil {
		stop()
		return nil, nil, nil, err
	}
	return s, d, stop, nil
}

// mount makes the namespace and mounts the disk in it.
func (d *Disk) mount() error {
	d.holder = exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs -o mode=0777,`+diskSize+` tmpfs "$0" && echo mounted && exec cat`, d.folder)
	out, err := d.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if d.hold, err = d.holder.StdinPipe(); err != nil {
		return err
	}
	if err := d.holder.Start(); err != nil {
		return err
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line == "" {
		return errors.New("a file system in memory cannot be mounted in a namespace of its own")
	}
	d.s.enter = []string{"nsenter", "--mount", "--target", strconv.Itoa(d.holder.Process.Pid)}
	return nil
}

func (d *Disk) release() {
	if d.hold != nil {
		_ = d.hold.Close()
		_ = d.holder.Wait() // it ends with its input
	}
}

// Fill leaves no room on the disk. The disk cannot be made smaller than its contents, and the
// server may write between the look and the change, so it is tried again.
func (d *Disk) Fill() error {
	return d.do(`fill() { mount -o remount,size=$(( $(df --output=used -k "$0" | tail -n 1) ))k "$0"; }
		for try in $(seq 50); do fill 2>/dev/null && exit; done; fill`)
}

// Free gives the disk its room again, and starts the server if it has ended.
func (d *Disk) Free() error {
	if err := d.do(`mount -o remount,` + diskSize + ` "$0"`); err != nil {
		return err
	}
	if d.s.command("pg_ctl", "-D", d.s.data, "status").Run() == nil {
		return nil
	}
	return d.s.Restart()
}

func (d *Disk) do(script string) error {
	line := append(append([]string{}, d.s.enter...), "sh", "-c", script, d.folder)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}
