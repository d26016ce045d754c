//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"strings"
	"testing"
)

// TestProgramsDoTheSame: what programs do under a supervisor that allows all is what they do without.
func TestProgramsDoTheSame(t *testing.T) {
	for name, script := range map[string]string{
		"files":   "echo a >f; cat f; cp f g; mv g h; ln h i; ln -s f l; cat l; echo b >>l; cat f; rm i; ls -l --time-style=+ | sed 's/root//g'; stat -c '%a %h %s' *",
		"umask":   "umask 077; echo a >f; mkdir d; mkfifo p; umask 002; echo a >g; mkdir e; stat -c '%a %F' *",
		"links":   "mkdir -p a/b; ln -s ../x a/b/up; ln -s $PWD/a abs; echo 1 >a/x; cat abs/b/up; echo new >dangling 2>&1; ln -s target new; echo 2 >new; cat target; ls; ln -s loop loop; cat loop; echo >loop; mkdir new/; rmdir new; touch abs/b/../y; cat abs/y; readlink -f abs/b/up | sed s,$PWD,,",
		"fds":     "echo hi >f; exec 5<f; cat /proc/self/fd/5; exec 6<f; cat /dev/fd/6; echo in | cat /dev/stdin; echo out >/dev/stdout; (cd /proc/self/cwd && cat f); cat <(echo sub); echo a | tee /dev/stderr",
		"proc":    "cat /proc/self/comm; cat /proc/self/cmdline | tr '\\0' ' '; test -r /proc/self/maps; echo $?; head -c1 /proc/self/maps >/dev/null; echo $?; cat /proc/$$/comm; ls /proc/self/task | wc -l; readlink /proc/self/exe",
		"fifo":    "mkfifo p; (echo through >p) & cat p; wait; (cat p >got) & echo back >p; wait; cat got",
		"errors":  "cat nothing; cat nothing/; echo >nodir/f; mkdir f/g; touch f; mkdir f/g; cat f/; rmdir f; rm -r nothing; mkdir .; rmdir .; mv f .; mv . f; ln f f; mkdir d; rm d; ln d e; >d; mv nothing x; chmod 7 nothing; : > /dev/null/x",
		"modes":   "touch f; chmod 640 f; chmod u+x f; stat -c %a f; touch -d '2001-02-03 04:05:06 UTC' f; stat -c %Y f; ln -s f l; touch -h -d @5 l; stat -c %Y l f; truncate -s 5 f; stat -c %s f; touch -d @9 f; chown $(id -u):$(id -g) f; echo $?; cp -a f g; stat -c '%a %Y' g",
		"git":     "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1; git init -q -b m; echo 1 >a; git add .; git commit -qm one; git checkout -qb x; echo 2 >>a; git commit -qam two; git checkout -q m; echo 3 >b; git add b; git commit -qm three; git rebase -q x; git worktree add -q wt; git stash -qu; echo 5 >a; git stash -q; git stash pop; git gc -q; git log --oneline | cut -c9-; git status --short; git fsck",
		"tar":     "mkdir -p s/a/b; for i in $(seq 100); do echo $i >s/a/b/$i; done; ln -s b s/a/l; ln s/a/b/1 s/h; tar cf t.tar s; mkdir o; tar xf t.tar -C o; diff -r s o/s && find o | sort | wc -l; cp -a s s2; rsync --version >/dev/null 2>&1; find s -name '1*' -exec cat {} + | wc -l; rm -rf s; ls",
		"python":  "python3 -c 'import os,tempfile,sqlite3,mmap; d=tempfile.mkdtemp(dir=\".\"); c=sqlite3.connect(d+\"/x.db\"); c.execute(\"create table t(a)\"); c.execute(\"insert into t values(1)\"); c.commit(); print(c.execute(\"select * from t\").fetchall()); f=open(d+\"/m\",\"w+b\"); f.truncate(4096); m=mmap.mmap(f.fileno(),4096); m[0]=65; m.flush(); print(open(d+\"/m\",\"rb\").read(1)); t=tempfile.TemporaryFile(dir=d); t.write(b\"x\"); print(len(os.listdir(d))); fd=os.open(d,os.O_TMPFILE|os.O_RDWR,0o600); os.write(fd,b\"t\"); os.link(\"m\",\"hard\",src_dir_fd=os.open(d,os.O_RDONLY),dst_dir_fd=os.open(d,os.O_RDONLY)); print(open(d+\"/hard\",\"rb\").read(1)); p=os.open(d,os.O_PATH); print(os.stat(p).st_mode & 0o777, os.open(\"m\",os.O_RDONLY,dir_fd=p)>2); os.setxattr(d+\"/m\",\"user.a\",b\"v\"); print(os.getxattr(d+\"/m\",\"user.a\")); os.removexattr(d+\"/m\",\"user.a\"); print(os.listxattr(d+\"/m\"))'",
		"full":    fullTable,
		"tty":     "script -qec 'tty >/dev/null; echo to >/dev/tty; stty size >/dev/null </dev/tty && echo sized' /dev/null | tr -d '\\r'; setsid sh -c 'echo x >/dev/tty' </dev/null >o 2>&1; grep -c 'No such device' o",
		"threads": "cat >m.go <<'X'\npackage main\nimport (\"fmt\";\"os\";\"sync\")\nfunc main(){var w sync.WaitGroup;for i:=range 64{w.Go(func(){for j:=range 50{n:=fmt.Sprint(i,\"-\",j);os.WriteFile(n,[]byte(n),0o600);b,_:=os.ReadFile(n);if string(b)!=n{panic(n)};os.Remove(n)}})};w.Wait();fmt.Println(\"done\")}\nX\nGOFLAGS= go run m.go; ls",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, watched := t.TempDir(), t.TempDir()
			want, wantCode := bare(t, here, "bash", "-c", script)
			s := supervised{dir: watched, decide: allow}
			got, code := s.run(t, "bash", "-c", script)
			if got = strings.ReplaceAll(got, watched, here); got != want || code != wantCode {
				t.Errorf("exit status %d:\n%s\nwithout supervisor %d:\n%s", code, got, wantCode, want)
			}
		})
	}
}

// fullTable opens files with all descriptors in use.
const fullTable = `printf precious > f; ln f g; exec python3 -c '
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
def tried(p, flags):
    try: os.close(os.open(p, flags)); return "opened"
    except OSError: return "refused" # for which reason, if there are two, the kernel does not say
kinds = [os.O_WRONLY|os.O_TRUNC, os.O_RDWR|os.O_TRUNC|os.O_CREAT, os.O_WRONLY|os.O_CREAT, os.O_RDWR|os.O_CREAT|os.O_EXCL, os.O_WRONLY|os.O_APPEND|os.O_TRUNC]
try:
    while True: os.open("f", os.O_RDONLY)
except OSError as e: print(e)
print([tried(p, k) for p in ("f", "new") for k in kinds], os.stat("f").st_size, [tried("n%d" % i, os.O_CREAT|os.O_WRONLY) + str(os.path.exists("n%d" % i)) for i in range(100)])
os.close(10)
print([tried(p, k) for p in ("f", "new") for k in kinds], os.stat("g").st_size, os.path.exists("new"))
'`
