class Remit < Formula
  desc "Executes AI agents' tool calls under policy, confined, recorded"
  homepage "<<.Base>>"
  version "<<.Version>>"
  license "Apache-2.0"

  depends_on :linux

  on_linux do
<<range .Archives>>    <<.Brew>> do
      url "<<$.Base>>/<<.File>>"
      sha256 "<<.SHA256>>"
    end
<<end>>  end

  def install
    bin.install "bin/remit", "bin/remit-hook"
    generate_completions_from_executable(bin/"remit", "completion")
  end

  test do
    assert_match "remit", shell_output("#{bin}/remit version")
  end
end
