package command

// buildList are compilers, linkers and the tools around them. They start other programs for
// their steps and load plugins, and options can choose both.
var buildList = []program{
	{names: "gcc g++ cc c++ c89 c99 cpp clang clang++ gfortran", grammar: grammar{single: true, known: compilerKnown}, files: fileWords{read: "include imacros", write: "o MF", rest: ignored}, run: byCompiler},
	{names: "ld ld.bfd ld.gold ld.lld gold", grammar: grammar{single: true, known: linkerKnown}, files: fileWords{write: "o output Map", rest: ignored}, run: byCompiler},
	{names: "nm", grammar: grammar{lists: true, known: `-ABDPSUVWXaeghjlnoprsu -ft= -C=? --debug-syms --defined-only --demangle=? --dynamic --extern-only --format= --ifunc-chars= --just-symbols --line-numbers --no-demangle --no-recurse-limit --no-sort --no-weak --numeric-sort
		--portability --print-armap --print-file-name --print-size --quiet --radix= --recurse-limit --reverse-sort --size-sort --special-syms --synthetic --target= --undefined-only --unicode= --with-symbol-versions --without-symbol-versions --help --version`}, files: fileWords{rest: reads}},
	{names: "objdump", grammar: grammar{lists: true, known: `-DEFGHLRSTUadefghilprstvwxz -IMPbjm= -C=? -W=? --adjust-vma= --all-headers --architecture= --archive-headers --ctf=? --ctf-parent= --debugging --debugging-tags --demangle=? --disassemble=? --disassemble-all --disassemble-zeroes
		--disassembler-color= --disassembler-options= --dwarf=? --dwarf-check --dwarf-depth= --dwarf-start= --dynamic-reloc --dynamic-syms --file-headers --file-offsets --file-start-context --full-contents --info --inlines --insn-width= --line-numbers
		--no-addresses --no-show-raw-insn --show-raw-insn --no-recurse-limit --prefix= --prefix-addresses --prefix-strip= --private= --private-headers --process-links --recurse-limit --reloc --section= --section-headers --show-all-symbols --source --source-comment=? --special-syms --stabs
		--start-address= --stop-address= --syms --target= --unicode= --visualize-jumps=? --wide --help --version`}, files: fileWords{rest: reads}},
	{names: "readelf", grammar: grammar{lists: true, known: `-ACDHILPSTUVWacdeghlnrstuvXz -pRxjw= --all --archive-index --dynamic --file-header --headers --histogram --hex-dump= --string-dump= --relocated-dump= --notes --program-headers --relocs --sections --section-headers --section-groups --section-details --segments --symbols --syms
		--dyn-syms --lto-syms --debug-dump=? --dwarf-depth= --dwarf-start= --ctf= --ctf-parent= --ctf-strings= --ctf-symbols= --no-demangle --demangle=? --no-recurse-limit --recurse-limit --sym-base= --use-dynamic --unwind --version-info --arch-specific --wide --unicode= --decompress --silent-truncation --help --version`}, files: fileWords{rest: reads}},
	{names: "ar ranlib", grammar: grammar{lists: true, bundle: true, known: "-abcDdfhilmNoOpPqrSstTuUvVxX --thin --output= --target= --help --version"}},
	{names: "strip", grammar: grammar{lists: true, known: "-DdSgMpUvwxXV -FIOKNRo= --discard-all --discard-locals --enable-deterministic-archives --disable-deterministic-archives --input-target= --output-target= --target= --keep-file-symbols --keep-section= --keep-section-symbols --keep-symbol= --merge-notes --no-merge-notes --only-keep-debug --preserve-dates --remove-relocations= --remove-section= --strip-all --strip-debug --strip-dwo --strip-symbol= --strip-unneeded --verbose --wildcard --info --help --version"}, files: fileWords{write: "o", rest: changes, other: "o", with: reads}},
	{names: "size", grammar: grammar{lists: true, known: "-ABGdoxtfhvV --format= --radix= --common --totals --target= --help --version"}, files: fileWords{rest: reads}},
	{names: "objcopy", grammar: grammar{lists: true, known: `-SgwxXpDUvVM -IOFBjRKNLGWno= --input-target= --output-target= --target= --binary-architecture= --only-section= --remove-section= --strip-all --strip-debug --strip-unneeded --strip-symbol= --keep-symbol= --keep-section= --only-keep-debug --add-gnu-debuglink=
		--add-section= --update-section= --dump-section= --rename-section= --set-section-flags= --redefine-sym= --redefine-syms= --localize-symbol= --globalize-symbol= --weaken-symbol= --weaken --prefix-symbols= --gap-fill= --pad-to= --compress-debug-sections=?
		--decompress-debug-sections --preserve-dates --set-start= --change-section-lma= --change-section-vma= --verbose --help --version`}, files: fileWords{first: reads, rest: writes}},
	{names: "rustc rustdoc", grammar: grammar{known: rustcKnown}, run: byRustc},
	{names: "go", grammar: grammar{single: true, known: goKnown}, run: byGo},
	{names: "man", grammar: grammar{known: "-7DIKWZacdfiklutwVh -ELMeRSmrsp= -T=? --all --apropos --ascii --catman --debug --default --ditroff --encoding= --extension= --global-apropos --ignore-case --local-file --locale= --location --location-cat --manpath= --match-case --names-only --nh --no-hyphenation --no-justification --no-subpages --path --regex --sections= --systems= --troff --troff-device=? --update --usage --warnings=? --whatis --where --where-cat --wildcard --help --version"}, files: fileWords{rest: ignored, other: "l local-file", with: reads}},
	{names: "groff troff nroff pic eqn tbl", grammar: grammar{known: "-abcCeEgGijklNpRsStvVzh -dDfIKmMnoPrTwW="}, files: fileWords{rest: reads}},
	{names: "tex latex pdftex pdflatex xetex xelatex latexmk", grammar: grammar{single: true, known: "-interaction= --interaction= -halt-on-error --halt-on-error -file-line-error -output-directory= -outdir= -auxdir= -jobname= -draftmode -synctex= -no-shell-escape -recorder -pdf -pdfxe -pdflua -dvi -ps -c -C -f -g -q -quiet -silent -cd -bibtex -version --version -help --help -ini -etex -no-file-line-error"}},
	{names: "dvips", grammar: grammar{known: "-aABcEfijKkMmNqrsVz -bCDdehlnoOpPSTtuxXyY="}},
	{names: "zic", grammar: grammar{known: "-v -bdlLprRt= --version --help"}},
}

const (
	compilerKnown = `-c -S -E -o= -o* -O* -g* -w -v -s -x= -x* -I*= -isystem= -iquote= -idirafter= -include= -imacros= -D*= -U*= -L*= -l*= -u= -pipe -pthread -pedantic -pedantic-errors -ansi -std=* --std=* -static -static-libgcc -static-libstdc++ -shared -pie -no-pie -static-pie
		-rdynamic -nostdlib -nodefaultlibs -nostartfiles -nostdinc -nostdinc++ -M -MM -MD -MMD -MP -MG -MF= -MT= -MQ= -P -C -H -dM -dD -T= -Wl,* -Xlinker= -z= -z* -march=* -mtune=* -mcpu=* -mfpu=* -mfloat-abi=* -mabi=* -m32 -m64 -mx32 -msse* -mavx* -mno-avx*
		-mno-sse* -mfma -mbmi* -maes -mpclmul -mpopcnt -mcmodel=* -mthumb -marm -mno-red-zone -mgeneral-regs-only -mmacosx-version-min=* -Wall -Wextra -Werror -Werror=* -Wno-* -Wpedantic -Wshadow* -Wconversion -Wsign-* -Wformat* -Wunused* -Wuninitialized
		-Wmissing-* -Wstrict-* -Wcast-* -Wpointer-arith -Wundef -Wdouble-promotion -Wnull-dereference -Wold-style-* -Wredundant-decls -Wswitch* -Wvla -Wwrite-strings -Wfatal-errors -Wimplicit* -Wdeprecated* -Wreturn-type -Wparentheses -Wlogical-op -Wduplicated-*
		-Wnon-virtual-dtor -Woverloaded-virtual -Weverything -Wall-extensions -Wfloat-* -Wdeclaration-after-statement -Wmaybe-uninitialized -Wstack-* -Warray-bounds* -Wstringop-* -Wrestrict -Wthread-safety* -Wdocumentation -Wreorder -Wsuggest-* -Wuseless-cast
		-Wimplicit-fallthrough* -Wnested-externs -Wbad-function-cast -Winline -Wcomment* -Wtype-limits -Wpadded -Wpacked -Wdate-time -Weffc++ -fPIC -fpic -fPIE -fpie -fno-* -fstrict-aliasing -fsanitize=* -fstack-protector* -fstack-clash-protection -fcf-protection*
		-fvisibility=* -fvisibility-inlines-hidden -fexceptions -fopenmp -fopenmp-simd -flto -flto=thin -flto=full -flto=auto -fomit-frame-pointer -funroll-loops -ffast-math -fcommon -fsigned-char -funsigned-char -fwrapv -ftrapv -ffreestanding -fhosted -fbuiltin
		-fdiagnostics-* -fcolor-diagnostics -fmax-errors=* -ferror-limit=* -fsyntax-only -finline* -ffunction-sections -fdata-sections -fprofile-arcs -fprofile-instr-* -fprofile-generate* -fprofile-use* -ftest-coverage -fcoverage-mapping -fmerge-all-constants -fpack-struct*
		-fshort-enums -fshort-wchar -fms-extensions -fgnu89-inline -fblocks -fobjc-arc -fcoroutines -fconcepts -fpermissive -frtti -fconstexpr-* -ftemplate-depth=* -ftemplate-backtrace-limit=* -ftree-vectorize -fvect* -fstack-usage -fanalyzer -fdump-* -fdebug-prefix-map=*
		-ffile-prefix-map=* -fmacro-prefix-map=* -frandom-seed=* -fsplit-stack -ftrivial-auto-var-init=* -fzero-call-used-regs=* -fstrict-flex-arrays* -finput-charset=* -fexec-charset=* -fextended-identifiers -fimplicit-none -ffree-form -ffixed-form
		-print-search-dirs -print-libgcc-file-name -print-file-name=* -print-prog-name=* -print-multi-* -print-sysroot -print-resource-dir -dumpversion -dumpfullversion -dumpmachine -dumpspecs --target=* --version --help --help=* -### -time -save-temps* -Q
		-ftime-report -ftime-trace -stdlib=* -Qunused-arguments -ObjC`

	linkerKnown = `-o= -o* --output=* -e= -e* --entry=* -L*= -l*= --library=* --library-path=* -T= -Ttext=* -Tdata=* -Tbss=* -m= -m* -M -Map= -Map=* --Map=* -r -s -S -t -v -V -x -X -E -d -n -N -i -q -Bstatic -Bdynamic -Bsymbolic* -static -shared -pie -no-pie -h* -soname= -soname=* --soname=* -rpath= -rpath=* --rpath=*
		-rpath-link= -rpath-link=* --rpath-link=* -z= -z* -u= -u* --undefined=* --as-needed --no-as-needed --gc-sections --no-gc-sections --print-gc-sections --whole-archive --no-whole-archive --start-group --end-group -( -) --export-dynamic --no-export-dynamic --build-id --build-id=*
		--hash-style=* --eh-frame-hdr --version-script=* --dynamic-list=* --dynamic-linker= --dynamic-linker=* --exclude-libs= --exclude-libs=* --defsym= --defsym=* --wrap= --wrap=* --strip-all --strip-debug --discard-all --discard-locals --no-undefined --allow-multiple-definition
		--unresolved-symbols=* --warn-common --warn-once --fatal-warnings --no-fatal-warnings --enable-new-dtags --disable-new-dtags --relax --no-relax --sort-section=* --compress-debug-sections=* --icf=* --threads=* --thread-count=* --stats --trace --cref --emit-relocs --orphan-handling=* --section-start=*
		--nostdlib -nostdlib --oformat= --oformat=* -O* --version --help`

	rustcKnown = `-OghvVq -loLACDWF= --crate-name= --crate-type= --edition= --emit= --out-dir= --target= --extern= --cfg= --check-cfg= --explain= --print= --test --cap-lints= --error-format= --color= --json= --verbose --version --help --document-private-items --allow= --warn= --deny= --forbid= --codegen=
		--remap-path-prefix= --output= --no-deps --open --crate-version= --markdown-css= --html-in-header= --theme= --show-coverage`

	goKnown = `-C= -n -a -p= -race -msan -asan -cover -covermode= -coverpkg= -v -work -x -asmflags= -buildmode= -buildvcs=* -buildvcs -compiler= -gcflags= -ldflags= -linkshared -mod= -modcacherw -modfile= -overlay= -pgo= -tags= -trimpath -json -installsuffix= -o= -i
		-bench= -benchmem -benchtime= -blockprofile= -blockprofilerate= -count= -coverprofile= -cpu= -cpuprofile= -failfast -fullpath -fuzz= -fuzztime= -fuzzminimizetime= -list= -memprofile= -memprofilerate= -mutexprofile= -mutexprofilefraction= -outputdir= -parallel=
		-run= -short -shuffle= -skip= -test.v -timeout= -trace= -vet= -c -update -u -t -d -e -f= -m -deps -export -find -compiled -test -versions -retracted -reuse= -h -help --help --version -changed -all -cmd -src -short -cache -testcache -modcache -fuzzcache
		-fix -diff -go= -toolchain= -require= -droprequire= -replace= -dropreplace= -exclude= -dropexclude= -retract= -dropretract= -print -fmt -module= -tool=* -tool -droptool= -compat= -r -use= -dropuse= -why -vendor -q -s -func= -html= -var= -mode= -artifacts
		-count* -printf -printf=* -shadow* -copylocks* -composites* -unusedresult* -nilness* -fieldalignment*`
)
