{
  description = "Remit <<.Summary>>";

  inputs.nixpkgs.url = "nixpkgs";

  outputs = { self, nixpkgs }:
    let
      version = "<<.Version>>";
      archives = {
<<range .Archives>>        <<.Nix>> = {
          url = "<<$.Base>>/<<.File>>";
          hash = "<<.SRI>>";
        };
<<end>>      };
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
