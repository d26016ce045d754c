package command

import "strings"

// gitGlobal are the options of git itself. The others can choose its programs:
// --exec-path=, --config-env=, --git-dir=.
const gitGlobal = "-p -P -h -v -C= -c= --paginate --no-pager --no-replace-objects --no-lazy-fetch --bare --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-optional-locks --no-advice --version --help --html-path --man-path --info-path --exec-path --work-tree= --namespace= --list-cmds= --attr-source="

// Options that several subcommands of git have.
const (
	gitDiff = ` -pusUzwbRaBCMDSGXOl -U=? -S= -G= -O= -l= -I= -M=? -C=? -B=? -X=? -R -W --patch --no-patch --unified=? --raw --patch-with-raw --patch-with-stat --indent-heuristic --minimal --patience --histogram --anchored= --diff-algorithm= --stat=? --stat-width= --stat-name-width= --stat-count= --stat-graph-width=
		--compact-summary --numstat --shortstat --dirstat=? --cumulative --dirstat-by-file=? --summary --name-only --name-status --submodule=? --color=? --color-moved=? --color-moved-ws= --word-diff=? --word-diff-regex= --color-words=? --renames --rename-empty --check --ws-error-highlight= --full-index --binary --abbrev=?
		--break-rewrites=? --find-renames=? --find-copies=? --find-copies-harder --irreversible-delete --diff-filter= --find-object= --pickaxe-all --pickaxe-regex --skip-to= --rotate-to= --relative=? --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines
		--ignore-matching-lines= --inter-hunk-context= --function-context --exit-code --quiet --no-textconv --ignore-submodules=? --src-prefix= --dst-prefix= --no-prefix --default-prefix --line-prefix= --ita-invisible-in-index --ita-visible-in-index --cc -c -m --merge-base --cached --staged --no-index --base --ours --theirs -0 -1 -2 -3 -q --no-ext-diff --combined-all-paths --output= --output-indicator-new= --output-indicator-old= --output-indicator-context=`
	gitRev = ` -n= -i -E -F -P -g -t -r --max-count= --skip= --since= --after= --since-as-filter= --until= --before= --author= --committer= --grep-reflog= --grep= --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp --remove-empty --merges --no-merges --min-parents= --max-parents=
		--no-min-parents --no-max-parents --first-parent --exclude-first-parent-only --not --all --branches=? --tags=? --remotes=? --glob= --exclude= --exclude-hidden= --reflog --alternate-refs --single-worktree --ignore-missing --bisect --stdin --cherry-mark --cherry-pick --left-only --right-only --cherry --walk-reflogs --merge --boundary
		--simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path=? --date-order --author-date-order --topo-order --reverse --no-walk=? --do-walk --pretty=? --format= --abbrev-commit --oneline --encoding= --expand-tabs=? --notes=? --show-notes-by-default --standard-notes --show-signature
		--relative-date --date= --parents --children --left-right --graph --show-linear-break=? --count --objects --unpacked --timestamp --header --disk-usage=? --follow --decorate=? --decorate-refs= --decorate-refs-exclude= --clear-decorations --source --mailmap --use-mailmap --full-diff --log-size -L= --diff-merges= --remerge-diff --show-tree-walk --root --cumulative --max-age= --min-age= --bisect-vars --bisect-all`
	gitSequence = ` --continue --abort --quit --skip -n -x -X= --strategy-option= -r --mainline= -S=? --gpg-sign=? --ff --keep-redundant-commits --no-commit --rerere-autoupdate --empty= --reference`
	gitHosts    = " -46 --ipv4 --ipv6 --progress --server-option="
	gitPaths    = " --pathspec-from-file= --pathspec-file-nul"
)

// gitCommands are the subcommands of git that start nothing but what belongs to Git, with
// their options. Of the list talking, some option starts a program, so that each of their words
// must be known. An unknown subcommand is an alias, or a program git-NAME. None of these names
// can be one: Git looks for its own commands first.
const gitCommands = `add: -ANefinpuv --all --ignore-removal --chmod= --dry-run --edit --force --ignore-errors --ignore-missing --intent-to-add --interactive --patch --refresh --renormalize --sparse --update --verbose PATHS
stage: -ANefinpuv --all --dry-run --force --patch --update --verbose PATHS
am: -3cikmqrsu -Cp= -S=? --3way --abort --allow-empty --committer-date-is-author-date --continue --directory= --empty= --exclude= --gpg-sign=? --ignore-date --ignore-space-change --ignore-whitespace --include= --interactive --keep --keep-cr --keep-non-patch --message-id --patch-format= --quiet --quit --quoted-cr= --reject --rerere-autoupdate --resolved --retry --scissors --show-current-patch=? --signoff --skip --utf8 --verify --whitespace=
annotate blame: -CMbceflnpstwh -LS= --abbrev=? --color-by-age --color-lines --contents= --date= --ignore-rev= --ignore-revs-file= --incremental --line-porcelain --minimal --porcelain --progress --root --score-debug --show-email --show-name --show-number --show-stats --since= --reverse --first-parent --encoding=
apply: -3NRqvz -Cp= --3way --allow-empty --allow-overlap --apply --build-fake-ancestor= --cached --check --directory= --exclude= --ignore-space-change --ignore-whitespace --inaccurate-eof --include= --index --intent-to-add --no-add --numstat --ours --theirs --union --quiet --recount --reject --reverse --stat --summary --unidiff-zero --verbose --whitespace=
bisect: --term-good= --term-bad= --term-old= --term-new= --no-checkout --first-parent
branch: -CDMacdfilmqrv -u= -t=? --abbrev=? --all --color=? --column=? --contains= --copy --create-reflog --delete --edit-description --force --format= --ignore-case --list --merged=? --move --no-contains= --no-merged=? --points-at= --quiet --recurse-submodules --remotes --set-upstream-to= --show-current --sort= --track=? --unset-upstream --verbose --omit-empty
bugreport: -o= -s= --output-directory= --suffix=
bundle: -q --quiet --progress --all-progress --all-progress-implied --version= --all --branches=? --tags=? --since=
cat-file: -epstz --allow-unknown-type --batch=? --batch-all-objects --batch-check=? --batch-command=? --buffer --follow-symlinks --mailmap --path= --unordered --use-mailmap
check-attr: -az --all --cached --stdin --source=
check-ignore: -nqvz --index --non-matching --quiet --stdin --verbose
check-mailmap: --stdin
check-ref-format: --branch --allow-onelevel --refspec-pattern --normalize
checkout: -23dflmpq -Bb= -t=? --conflict= --detach --force --guess --ignore-other-worktrees --ignore-skip-worktree-bits --merge --orphan= --ours --overlay --overwrite-ignore --patch --progress --quiet --recurse-submodules=? --theirs --track=? PATHS
checkout-index: -afnquz --all --force --ignore-skip-worktree-bits --index --no-create --prefix= --quiet --stage= --stdin --temp
cherry: -v --abbrev=? --verbose
cherry-pick: -e -s -m= --edit --signoff --allow-empty --allow-empty-message --cleanup= SEQUENCE
clean: -Xdfinqx -e= --dry-run --exclude= --force --interactive --quiet
column: --command= --mode= --width= --indent= --nl= --padding=
commit: -abeinopqsvz -CFcmt= -Su=? --ahead-behind --all --amend --author= --branch --cleanup= --date= --dry-run --edit --file= --fixup= --gpg-sign=? --include --interactive --long --message= --post-rewrite --verify --null --only --patch --porcelain --quiet --reedit-message= --reset-author --reuse-message= --short --signoff --squash= --status --template= --trailer= --untracked-files=? --verbose --allow-empty --allow-empty-message PATHS
commit-graph: --object-dir= --append --reachable --stdin-packs --stdin-commits --changed-paths --progress --split=? --shallow
commit-tree: -Fmp= -S=? --gpg-sign=?
count-objects: -Hv --human-readable --verbose
describe: --abbrev=? --all --always --broken=? --candidates= --contains --debug --dirty=? --exact-match --exclude= --first-parent --long --match= --tags
diagnose: -o= -s= --output-directory= --suffix= --mode=
diff diff-files diff-index diff-tree: DIFF REV
fast-export: --all --progress= --signed-tags= --tag-of-filtered-object= --import-marks= --export-marks= --no-data --refspec= --anonymize --full-tree --reencode=
fmt-merge-msg: -m= -F= --log=? --message= --file= --into-name=
for-each-ref: -ps --color=? --contains=? --count= --exclude= --format= --ignore-case --include-root-refs --merged=? --no-contains=? --no-merged=? --omit-empty --perl --points-at= --python --shell --sort= --stdin --tcl
format-patch: -Nknpqs -ov= --add-header= --attach=? --base= --cc= --cover-from-description= --cover-letter --creation-factor= --filename-max-length= --force-in-body-from --from=? --ignore-if-in-upstream --in-reply-to= --inline=? --interdiff= --keep-subject --numbered --numbered-files --output-directory= --progress --quiet --range-diff= --reroll-count= --rfc --signature= --signature-file= --signoff --start-number= --stdout --subject-prefix= --suffix= --thread=? --to= --zero-commit --encode-email-headers DIFF REV
fsck fsck-objects: -v --cache --connectivity-only --dangling --full --lost-found --name-objects --progress --reflogs --root --strict --tags --unreachable --verbose
gc: -q --aggressive --auto --cruft --force --keep-largest-pack --prune=? --quiet --detach --max-cruft-size=
get-tar-commit-id:
hash-object: -w -t= --stdin --stdin-paths --path= --no-filters --literally
log show whatchanged: -q --quiet --expand-tabs=? DIFF REV
ls-files: -cdfikmostuvz -Xx= --abbrev=? --cached --debug --deduplicate --deleted --directory --empty-directory --eol --error-unmatch --exclude= --exclude-from= --exclude-per-directory= --exclude-standard --format= --full-name --ignored --killed --modified --others --recurse-submodules --resolve-undo --sparse --stage --unmerged --with-tree=
ls-tree: -dlrtz --abbrev=? --format= --full-name --full-tree --long --name-only --name-status --object-only
mailinfo: -kbumn --encoding= --scissors --quoted-cr= --message-id
mailsplit: -bd -fo= --keep-cr --mboxrd
merge-base: -a --all --fork-point --independent --is-ancestor --octopus
merge-file: -pq -L= --stdout --ours --theirs --union --quiet --marker-size= --diff3 --zdiff3 --object-id --diff-algorithm=
merge-tree: -zX= --allow-unrelated-histories --messages --name-only --stdin --trivial-merge --write-tree --merge-base= --strategy-option=
mktag: --strict
mktree: -z --missing --batch
multi-pack-index: --object-dir= --progress --stdin-packs --bitmap --preferred-pack= --refs-snapshot= --batch-size=
mv: -fknv --dry-run --force --sparse --verbose
name-rev: --all --always --annotate-stdin --exclude= --name-only --refs= --stdin --tags --undefined
notes: -fsqnv -mFCce= --ref= --force --message= --file= --reuse-message= --reedit-message= --allow-empty --separator= --stripspace --stdin --ignore-missing --strategy= --commit --abort --quiet --verbose --dry-run
pack-objects: -q --all --stdout --revs --thin --progress --window= --depth= --threads= --incremental --local --unpacked --keep-true-parents --delta-base-offset
pack-redundant: --all --verbose --alt-odb
pack-refs: --all --prune --auto --include= --exclude=
patch-id: --stable --unstable --verbatim
prune: -nv --dry-run --verbose --progress --expire= --exclude-promisor-objects
prune-packed: -nq --dry-run --quiet
range-diff: --creation-factor= --dual-color --left-only --right-only --diff-merges= DIFF REV
read-tree: -mnuivq --reset --prefix= --index-output= --dry-run --aggressive --empty --sparse-checkout --recurse-submodules=?
reflog: -nv --all --dry-run --verbose --expire= --expire-unreachable= --updateref --rewrite --stale-fix --single-worktree DIFF REV
remote: -vftnp -m= --verbose --fetch --tags --mirror=? --master= --auto --delete --add --push --all --dry-run --prune --progress
repack: -AFabdfiklmnq -g= --cruft --cruft-expiration= --delta-islands --depth= --expire-to= --geometric= --keep-pack= --keep-unreachable --local --max-pack-size= --pack-kept-objects --quiet --threads= --unpack-unreachable= --window= --window-memory= --write-bitmap-index --write-midx
replace: -defgl --convert-graft-file --delete --edit --force --format= --graft --list --raw
request-pull: -p
rerere: --rerere-autoupdate
reset: -Npq --hard --intent-to-add --keep --merge --mixed --refresh --patch --quiet --recurse-submodules=? --soft PATHS
restore: -23SWmpq -s= --conflict= --ignore-skip-worktree-bits --ignore-unmerged --merge --ours --overlay --patch --progress --quiet --recurse-submodules=? --source= --staged --theirs --worktree PATHS
rev-list: DIFF REV
rev-parse: -qh --parseopt --sq-quote --keep-dashdash --stop-at-non-option --stuck-long --revs-only --no-revs --flags --no-flags --default= --prefix= --verify --quiet --sq --short=? --not --abbrev-ref=? --symbolic --symbolic-full-name --all --branches=? --tags=? --remotes=? --glob= --exclude= --disambiguate= --local-env-vars --path-format= --git-dir --git-common-dir --resolve-git-dir= --git-path= --show-toplevel --show-superproject-working-tree --shared-index-path --absolute-git-dir --is-inside-git-dir --is-inside-work-tree --is-bare-repository --is-shallow-repository --show-cdup --show-prefix --show-object-format=? --show-ref-format --since= --after= --until= --before= --output-object-format= --end-of-options
revert: -e -s -m= --edit --signoff --cleanup= SEQUENCE
rm: -fnqr --cached --dry-run --force --ignore-unmatch --quiet --sparse PATHS
shortlog: -cens -w=? --committer --email --group= --numbered --summary REV
show-branch: -agr --all --color=? --current --date-order --independent --list --merge-base --more=? --no-name --reflog=? --remotes --sha1-name --sparse --topics --topo-order
show-index: --object-format=
show-ref: -dq -s=? --abbrev=? --branches --dereference --exclude-existing=? --exists --hash=? --head --heads --quiet --tags --verify
sparse-checkout: --cone --sparse-index --stdin --skip-checks --end-of-options
stash: -kuapqSs -m= --keep-index --include-untracked --all --patch --quiet --message= --staged --index --only-untracked --pathspec-from-file= --pathspec-file-nul DIFF REV
status: -bsvz -M=? -u=? --ahead-behind --branch --column=? --find-renames=? --ignore-submodules=? --ignored=? --long --renames --null --porcelain=? --short --show-stash --untracked-files=? --verbose
stripspace: -sc --strip-comments --comment-lines
switch: -dfmq -Cc= -t=? --conflict= --create= --detach --discard-changes --force --force-create= --guess --ignore-other-worktrees --merge --orphan= --overwrite-ignore --progress --quiet --recurse-submodules=? --track=?
symbolic-ref: -dq -m= --delete --quiet --recurse --short
tag: -adefilsv -Fmu= -n=? --annotate --cleanup= --color=? --column=? --contains=? --create-reflog --delete --edit --file= --force --format= --ignore-case --list --local-user= --merged=? --message= --no-contains=? --no-merged=? --omit-empty --points-at= --sign --sort= --trailer= --verify
unpack-file:
update-index: -gqz --add --again --assume-unchanged --cacheinfo= --chmod= --clear-resolve-undo --force-remove --force-untracked-cache --force-write-index --ignore-missing --ignore-skip-worktree-entries --ignore-submodules --index-info --index-version= --info-only --skip-worktree --really-refresh --refresh --remove --replace --split-index --stdin --test-untracked-cache --unmerged --unresolve --untracked-cache --verbose
update-ref: -dz -m= --create-reflog --deref --stdin
update-server-info: -f --force
var: -l
verify-commit verify-tag: -v --raw --verbose --format=
verify-pack: -sv --object-format= --stat-only --verbose
version: --build-options
worktree: -bBfdnvqz --force --detach --checkout --guess --guess-remote --lock --orphan --quiet --track --relative-paths --reason= --expire= --dry-run --verbose --porcelain --exit-code
write-tree: --missing-ok --prefix=
`

// gitTalking are the subcommands of which some option starts a program.
const gitTalking = `archive: -Nlv -o= --add-file= --add-virtual-file= --format= --list --mtime= --output= --prefix= --verbose --worktree-attributes -0 -1 -2 -3 -4 -5 -6 -7 -8 -9
clone: -lnqsvj -bjo= --also-filter-submodules --bare --branch= --depth= --dissociate --filter= --jobs= --local --mirror --checkout --hardlinks --tags --origin= --quiet --recurse-submodules=? --recursive=? --reference= --reference-if-able= --reject-shallow --remote-submodules --revision= --separate-git-dir= --shallow-exclude= --shallow-since= --shallow-submodules --shared --single-branch --sparse --verbose HOSTS
fetch: -Pafkmnpqtuv -jo= --all --append --atomic --auto-gc --auto-maintenance --deepen= --depth= --dry-run --filter= --force --jobs= --keep --multiple --negotiate-only --negotiation-tip= --porcelain --prefetch --prune --prune-tags --quiet --recurse-submodules=? --refetch --refmap= --set-upstream --shallow-exclude= --shallow-since= --show-forced-updates --stdin --tags --unshallow --update-head-ok --update-shallow --verbose --write-commit-graph --write-fetch-head HOSTS
grep: -EFGHILNPWachilnopqrvwz -ABCefm= --after-context= --all-match --and --basic-regexp --before-context= --break --cached --color=? --column --context= --count --exclude-standard --extended-regexp --files-with-matches --files-without-match --fixed-strings --full-name --function-context --heading --ignore-case --index --invert-match --line-number --max-count= --max-depth= --name-only --not --null --only-matching --or --perl-regexp --quiet --recurse-submodules --recursive --show-function --text --threads= --untracked --word-regexp
init init-db: -q -b= --bare --initial-branch= --object-format= --ref-format= --quiet --separate-git-dir= --shared=?
ls-remote: -hqt -o= --branches --exit-code --get-url --heads --quiet --refs --sort= --symref --tags HOSTS
merge: -enqv -FXms= -S=? --abort --allow-unrelated-histories --autostash --cleanup= --commit --compact-summary --continue --edit --ff --ff-only --file= --gpg-sign=? --into-name= --log=? --message= --verify --overwrite-ignore --progress --quiet --quit --rerere-autoupdate --signoff --squash --stat --strategy= --strategy-option= --summary --verbose --verify-signatures
pull: -afknpqtv -Xos= -Sjr=? --all --allow-unrelated-histories --append --autostash --cleanup= --commit --deepen= --depth= --dry-run --edit --ff --ff-only --force --gpg-sign=? --jobs=? --keep --log=? --negotiation-tip= --prune --quiet --rebase=? --recurse-submodules=? --refmap= --set-upstream --shallow-exclude= --shallow-since= --show-forced-updates --signoff=? --squash --stat --strategy= --strategy-option= --summary --tags --unshallow --update-shallow --verbose --verify --verify-signatures HOSTS
push: -dfnquv -o= --all --atomic --branches --delete --dry-run --follow-tags --force --force-if-includes --force-with-lease=? --mirror --verify --porcelain --prune --push-option= --quiet --recurse-submodules= --repo= --set-upstream --signed=? --tags --thin --verbose HOSTS
rebase: -fimnqv -CXs= -Sr=? --abort --apply --autosquash --autostash --committer-date-is-author-date --continue --edit-todo --empty= --force-rebase --fork-point --gpg-sign=? --ignore-date --ignore-whitespace --interactive --keep-base --keep-empty --merge --ff --stat --verify --onto= --quiet --quit --reapply-cherry-picks --rebase-merges=? --rerere-autoupdate --reschedule-failed-exec --reset-author-date --root --show-current-patch --signoff --skip --strategy= --strategy-option= --update-refs --verbose --whitespace=
config: -elz -ft= --add --all --append --blob= --bool --bool-or-int --bool-or-str --comment= --default= --expiry-date --file= --fixed-value --get --get-all --get-color --get-colorbool --get-regexp --get-urlmatch --global --includes --int --list --local --name-only --null --path --regexp --remove-section --rename-section --replace-all --show-names --show-origin --show-scope --system --type= --unset --unset-all --url= --value= --worktree
submodule: -bfqN -b= --branch= --cached --checkout --default --depth= --filter= --force --files --init --jobs= --merge --name= --fetch --progress --quiet --rebase --recommend-shallow --recursive --reference= --remote --single-branch --summary-limit= --summary= --all
`

// gitOptions reads the lists of subcommands.
func gitOptions(list string, into map[string]*grammar, harmless bool) {
	common := strings.NewReplacer(" DIFF", gitDiff, " REV", gitRev, " SEQUENCE", gitSequence, " HOSTS", gitHosts, " PATHS", gitPaths)
	for line := range strings.Lines(list) {
		names, known, _ := strings.Cut(strings.TrimSpace(line), ":")
		// A subcommand's own list comes last, so it overrides the common ones.
		for n := range strings.FieldsSeq(names) {
			into[n] = &grammar{known: common.Replace(known) + " " + own(known), negate: true, digits: true, harmless: harmless, lead: n == "config"} // config reads no option behind a key
		}
	}
}

// own gives the options of a list without the names of common ones.
func own(known string) string {
	return strings.NewReplacer(" DIFF", "", " REV", "", " SEQUENCE", "", " HOSTS", "", " PATHS", "").Replace(known)
}
