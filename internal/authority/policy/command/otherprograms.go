package command

// otherList are further programs of which some option starts another one.
var otherList = []program{
	{names: "pidstat", grammar: grammar{known: "-dhHIlRrstUuVvw -CGpT= --human --version --help"}},
	{names: "fzf", grammar: grammar{known: "-ei0126mx -fqdn= --exact --filter= --query= --multi --no-multi --delimiter= --nth= --with-nth= --height= --layout= --reverse --border=? --prompt= --header= --header-lines= --ansi --select-1 --exit-0 --print0 --read0 --print-query --tac --no-sort --cycle --color= --no-color --preview-window= --info= --version --help"}},
	{names: "enscript", grammar: grammar{known: "-1234567BGgjklmqrRz -bfFiLMnNopPsStT= --version --help"}, files: fileWords{write: "o p", rest: reads}},
	{names: "cowsay cowthink", grammar: grammar{known: "-bdgnpstwyhl -eTW="}},
	{names: "scrot", grammar: grammar{known: "-bcfhikmopsuvz -aCdDFlnqtw= --border --count --delay= --focused --overwrite --pointer --quality= --select --silent --thumb= --multidisp --version --help"}},
	{names: "sysctl", grammar: grammar{known: "-aAbdeiNnqXhV -r= --all --binary --ignore --names --values --pattern= --quiet --version --help"}},
}

const findKnown = `-H -L -P -O0 -O1 -O2 -O3 -D= -D* -amin= -anewer= -atime= -cmin= -cnewer= -context= -ctime= -daystart -delete -d -depth -empty -executable -false -files0-from= -fls= -follow -fprint= -fprint0= -fprintf= -fstype= -gid= -group= -help --help -ignore_readdir_race
	-noignore_readdir_race -ilname= -iname= -inum= -ipath= -iregex= -iwholename= -links= -lname= -ls -maxdepth= -mindepth= -mmin= -mount -mtime= -name= -newer= -nogroup -noleaf -nouser -nowarn -warn -path= -perm= -print -print0 -printf= -prune -quit -readable -regex= -regextype= -samefile=
	-size= -true -type= -uid= -used= -user= -version --version -wholename= -writable -xdev -xtype= -exec -execdir -ok -okdir -o -or -a -and -not -E -X -s -x`

const hgKnown = `-qvyhnmABafgiIrUbuCcdpwlsMGPT0 -R= --quiet --verbose --noninteractive --encoding= --traceback --profile --version --help --hidden --color= --pager= --rev= --limit= --template= --include= --exclude= --all --amend --message= --date= --user= --git --stat --patch
	--graph --follow --branch= --no-merges --modified --added --removed --deleted --clean --unknown --ignored --copies --print0 --force --update --new-branch --bookmark= --close-branch --addremove --similarity= --dry-run --after`
