{
  description = "Remit executes AI agents' tool calls under policy, confined, recorded";

  inputs.nixpkgs.url = "nixpkgs";

  outputs = { self, nixpkgs }:
    let
      version = "1.2.3";
      archives = {
        x86_64-linux = {
          url = "https://releases.example.org/v1.2.3/remit_1.2.3_linux_amd64.tgz";
          hash = "sha256-WGExTX/Ms5whkhcyQOq0T6NcpmQmIByirNBjCmJY3VE=";
        };
        aarch64-linux = {
          url = "https://releases.example.org/v1.2.3/remit_1.2.3_linux_arm64.tgz";
          hash = "sha256-9pFilQ8jXjzbutM/H5EtGlBL6Q2KN9ACxzXW8+OIImU=";
        };
      };
    in {
      packages = builtins.mapAttrs (system: archive:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          remit = pkgs.stdenvNoCC.mkDerivation {
            pname = "remit";
            inherit version;
            src = pkgs.fetchurl (archive // { name = "remit.tgz"; }); # a store path may not have every name
            dontConfigure = true;
            dontBuild = true;
            dontFixup = true; # the programs are static
            installPhase = ''
              install -Dm755 -t $out/bin bin/remit bin/remit-hook
              install -Dm644 -t $out/share/doc/remit LICENSE third-party-notices.gz
            '';
            meta.mainProgram = "remit";
          };
        in {
          inherit remit;
          default = remit;
        }) archives;
    };
}
