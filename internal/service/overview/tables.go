package overview

// The tables of [kinds]. All names are in lower case, those of one program stand together.

// folders hold code or settings that programs load by themselves.
var folders = []struct{ who, names string }{
	{python, "venv virtualenv sitecustomize usercustomize"},
	{compile, "__pycache__"},
	{"Gradle", "buildsrc"},
	{"Mage", "magefiles"},
	{"SCons", "site_scons"},
	{"Tuist", "tuist"},
	{"Cypress", "cypress"},
	{"fastlane", "fastlane"},
	{packages, "vendor"},
	{"patch-package and its kind", "patches"},
	{"R, at each start", "renv"},
	{"Fabric", "fabfile"},
	{ci, ".github .circleci .buildkite .gitlab"},
	{agents, ".claude .codex .cursor .opencode .gemini"},
	{"editors, in a container", ".devcontainer"},
	{"Visual Studio Code", ".vscode"},
	{"JetBrains' editors", ".idea"},
	{git, ".husky .githooks .git-hooks"},
	{"Jekyll", "_plugins"},
	{"Ansible", "filter_plugins"},
}

// files are those that programs look for, as their documentation names them.
var files = []struct{ who, names string }{
	{"Node and its programs", "package.json package.json5 package.yaml"},
	{"npm", "package-lock.json npm-shrinkwrap.json .npmrc"},
	{"pnpm", "pnpm-lock.yaml pnpm-workspace.yaml .pnpmfile.cjs .pnpmfile.mjs"},
	{"Yarn", "yarn.lock .yarnrc .yarnrc.yml"},
	{"Bun", "bun.lock bun.lockb bunfig.toml"},
	{"Deno", "deno.json deno.jsonc deno.lock"},
	{"tools for Node", "lerna.json nx.json project.json turbo.json rush.json tsconfig.json jsconfig.json angular.json cdk.json serverless.yml serverless.yaml serverless.json " +
		"serverless.js serverless.ts wrangler.toml wrangler.json nodemon.json app.json firebase.json tauri.conf.json config-overrides.js testem.js ember-cli-" +
		"build.js brocfile.js binding.gyp"},
	{"make", "makefile gnumakefile bsdmakefile kbuild kconfig"},
	{"CMake", "cmakelists.txt cmakecache.txt cmakepresets.json cmakeuserpresets.json link.txt"},
	{"builds", "meson.build meson_options.txt meson.options sconstruct sconscript wscript waf configure premake5.lua xmake.lua conanfile.py conanfile.txt vcpkg.json " +
		"build.ninja build.zig build.zig.zon package.swift project.swift earthfile tiltfile skaffold.yaml dagger.json magefile.go"},
	{"just", "justfile .justfile"},
	{"Task", "taskfile.yml taskfile.yaml taskfile.dist.yml taskfile.dist.yaml"},
	{"Go", "go.mod go.sum go.work go.work.sum"},
	{"Bazel", "build build.bazel workspace workspace.bazel module.bazel .bazelrc .bazeliskrc"},
	{"Buck", "buck targets .buckconfig"},
	{"Cargo", "build.rs cargo.toml cargo.lock rust-toolchain rust-toolchain.toml"},
	{"Mix", "mix.exs mix.lock .iex.exs .formatter.exs config.exs runtime.exs"},
	{"Haskell's tools", "setup.hs setup.lhs stack.yaml hie.yaml cabal.project .ghci"},
	{"Clojure's tools", "project.clj deps.edn build.boot shadow-cljs.edn"},
	{"Maven", "pom.xml mvnw"},
	{"Gradle", "gradlew gradle.properties gradle-wrapper.properties gradle-wrapper.jar libs.versions.toml"},
	{"Ant", "build.xml ivy.xml"},
	{"MSBuild", "directory.build.props directory.build.targets directory.packages.props directory.build.rsp"},
	{"NuGet", "nuget.config packages.config"},
	{".NET", "global.json dotnet-tools.json"},
	{"Rake", "rakefile rakefile.rb"},
	{"Bundler", "gemfile gemfile.lock gems.rb"},
	{"Ruby's tools", "podfile fastfile appfile brewfile guardfile capfile thorfile dangerfile berksfile vagrantfile config.ru .rspec .irbrc .pryrc .rubocop.yml"},
	{"PHP's tools", "composer.json composer.lock phpunit.xml phpunit.xml.dist phpstan.neon rector.php psalm.xml phpcs.xml .user.ini .htaccess"},
	{"Perl's tools", "makefile.pl build.pl cpanfile"},
	{"pip and its kind", "setup.py setup.cfg pyproject.toml pipfile pipfile.lock poetry.lock poetry.toml uv.lock uv.toml hatch.toml hatch_build.py pdm_build.py environment.yml " +
		"pixi.toml pixi.lock pip.conf entry_points.txt"},
	{"pytest", "conftest.py pytest.ini .pytest.ini pytest.toml"},
	{"Python's tools", "noxfile.py tox.ini tox.toml fabfile.py tasks.py dodo.py manage.py locustfile.py environment.py mypy.ini .pylintrc pylintrc .flake8 .pdbrc " +
		".coveragerc .flaskenv gunicorn.conf.py snakefile"},
	{"Python, at each start", "sitecustomize.py usercustomize.py"},
	{"R, at each start", ".rprofile .renviron"},
	{"MkDocs", "mkdocs.yml mkdocs.yaml"},
	{"direnv", ".envrc .envrc.local"},
	{"mise", "mise.toml .mise.toml mise.local.toml"},
	{"asdf and its kind", ".tool-versions"},
	{"Docker", "dockerfile containerfile docker-bake.hcl docker-bake.json"},
	{"Nix", "flake.nix flake.lock shell.nix default.nix"},
	{"Ansible", "ansible.cfg site.yml main.yml main.yaml"},
	{"Helm", "chart.yaml helmfile.yaml"},
	{"Kustomize", "kustomization.yaml kustomization.yml"},
	{"Pulumi", "pulumi.yaml"},
	{git, ".gitmodules .gitattributes .gitignore .gitconfig .git .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml lefthook.yaml lefthook-local.yml " +
		".lefthook.yml"},
	{"Mercurial", ".hgrc hgrc"},
	{"GDB", ".gdbinit"},
	{"LLDB", ".lldbinit"},
	{"Vim", ".exrc .vimrc .nvimrc .nvim.lua .lvimrc"},
	{"Emacs", ".dir-locals.el .dir-locals-2.el"},
	{ci, "jenkinsfile .travis.yml .gitlab-ci.yml azure-pipelines.yml bitbucket-pipelines.yml .drone.yml cloudbuild.yaml buildspec.yml appveyor.yml .cirrus.yml " +
		"codemagic.yaml bitrise.yml semaphore.yml vercel.json netlify.toml fly.toml render.yaml heroku.yml"},
	{agents, "agents.md claude.md claude.local.md gemini.md qwen.md .mcp.json mcp.json opencode.json opencode.jsonc .cursorrules .windsurfrules .goosehints"},
	{"Dart", "pubspec.yaml pubspec.lock build.yaml analysis_options.yaml"},
	{"Rails", "database.yml boot.rb puma.rb"},
	{"gulp", "gulpfile.js"},
	{"Grunt", "gruntfile.js"},
	{"documentation tools", "_quarto.yml _config.yml antora-playbook.yml conf.py"},
	{"code generators", "codegen.yml codegen.yaml codegen.json buf.gen.yaml buf.gen.yml buf.yaml sqlc.yaml sqlc.yml sqlc.json gqlgen.yml orval.json"},
	{"packagers", "goreleaser.yml goreleaser.yaml snapcraft.yaml electron-builder.json electron-builder.yaml nfpm.yaml meta.yaml recipe.yaml recipe.yml bentofile.yaml cog.yaml"},
	{"editors, in a container", "devcontainer.json"},
	{"task runners", "ecosystem.json garden.yml garden.yaml okteto.yml okteto.yaml werf.yaml moon.yml melos.yaml dvc.yaml devbox.json process-compose.yaml devspace.yaml wails.json dbt_project.yml uwsgi.ini alembic.ini supervisord.conf"},
	{"Node's tools", "cspell.json stryker.conf.json jasmine.json cucumber.js tslint.json truffle-config.js knexfile.js electron-builder.yml cypress.json nightwatch.json typedoc.json bower.json " +
		"ormconfig.json bsconfig.json rescript.json"},
	{".NET", "launchsettings.json"},
	{"sbt", "build.properties plugins.scala dependencies.scala"},
	{"Julia", "build.jl"},
	{"Remit", "remit.yaml"},
}

// patterns are of further names, as path.Match reads them.
var patterns = []struct{ who, names string }{
	{"make", "*.mk *.mak makefile.* *.d"},
	{"CMake", "*.cmake"},
	{"Gradle", "*.gradle *.gradle.kts *.main.kts"},
	{"sbt", "*.sbt"},
	{"Swift", "package@swift-*.swift"},
	{"MSBuild", "*.*proj *.*proj.user *.props *.targets *.rsp *.sln *.slnx"},
	{"pip", "requirements*.txt constraints*.txt requirements*.in"},
	{"Python, at each start", "*.pth *.egg-link"},
	{compile, "*.py[co]"},
	{"Docker", "*.dockerfile dockerfile.* compose*.y*ml docker-compose*.y*ml"},
	{"Terraform", "*.tf *.tf.json *.tofu *.tfvars"},
	{called, "*.sh *.bash *.zsh *.fish *.bat *.cmd *.ps1 *.exe *.command"},
	{config, "*.config.* *.conf.[jt]s *rc.[jt]s *rc.[cm][jt]s vitest.*.[jt]s vite.*.[jt]s webpack*.js webpack*.ts karma*.js wdio*.[jt]s metro.*.js gatsby-*.[jt]s " +
		"tsconfig*.json"},
	{"Jest", "jest.setup.* setuptests.* *.snap"},
	{"gulp", "gulpfile.*"},
	{"Grunt", "gruntfile.*"},
	{"Jake", "jakefile*"},
	{"Rack", "*.ru"},
	{"Jupyter", "*.ipynb *_config.py"},
	{"Ansible", "playbook*.y*ml"},
	{"systemd", "*.service"},
	{ci, "jenkinsfile* .gitlab-ci*.yml azure-pipelines*.yml"},
	{"runners of Procfiles", "procfile procfile.*"},
}

// The kinds of files that do nothing by themselves, by the ends of their names, and the names without an end.
const (
	sources = "go py pyi js jsx mdx ts tsx mjs cjs mts cts vue svelte astro rs java kt scala groovy c h cc cpp cxx hh hpp hxx m mm cs fs vb swift rb php pl pm t lua ex exs erl hrl hs lhs ml mli clj cljs cljc dart r jl nim zig v sv vhd s asm sql proto graphql tmpl tpl j2 ejs hbs pug erb liquid mustache"
	others  = "md markdown rst adoc tex txt html htm css scss sass less png jpg jpeg gif svg ico webp avif bmp pdf ttf otf woff woff2 eot mp3 mp4 wav webm mov ogg map log golden diff txtar pub po pot csv tsv"
	data    = "json jsonl ndjson json5 yml yaml xml ini cfg conf properties sqlite db parquet npy npz gz zip tar bz2 xz zst bin dat"
	plain   = "readme license licence copying notice changelog authors contributors codeowners todo version install history patents maintainers"
)
