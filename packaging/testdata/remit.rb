class Remit < Formula
  desc "Executes AI agents' tool calls under policy, confined, recorded"
  homepage "https://releases.example.org/v1.2.3"
  version "1.2.3"
  license "Apache-2.0"

  depends_on :linux

  on_linux do
    on_intel do
      url "https://releases.example.org/v1.2.3/remit_1.2.3_linux_amd64.tgz"
      sha256 "5861314d7fccb39c2192173240eab44fa35ca66426201ca2acd0630a6258dd51"
    end
    on_arm do
      url "https://releases.example.org/v1.2.3/remit_1.2.3_linux_arm64.tgz"
      sha256 "f69162950f235e3cdbbad33f1f912d1a504be90d8a37d002c735d6f3e3882265"
    end
  end

  def install
    bin.install "bin/remit", "bin/remit-hook"
    generate_completions_from_executable(bin/"remit", "completion")
  end

  test do
    assert_match "remit", shell_output("#{bin}/remit version")
  end
end
