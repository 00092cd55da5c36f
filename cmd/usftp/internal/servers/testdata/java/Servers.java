import com.sshtools.common.auth.AuthorizedKeysPublicKeyAuthenticationProvider;
import com.sshtools.common.auth.DefaultAuthenticationMechanismFactory;
import com.sshtools.common.auth.InMemoryMutualKeyAuthenticationStore;
import com.sshtools.common.auth.AbstractPublicKeyAuthenticationProvider;
import com.sshtools.common.files.direct.NioFileFactory.NioFileFactoryBuilder;
import com.sshtools.common.publickey.SshKeyUtils;
import com.sshtools.common.publickey.SshPublicKeyFile;
import com.sshtools.common.ssh.SshConnection;
import com.sshtools.common.ssh.components.SshPublicKey;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.sshd.common.file.nativefs.NativeFileSystemFactory;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.config.keys.AuthorizedKeysAuthenticator;
import org.apache.sshd.sftp.server.SftpSubsystemFactory;

/** Apache MINA SSHD or Maverick Synergy, as their documentation starts a server. */
public class Servers {
	static int mina(Path at) throws Exception {
		SshServer ssh = SshServer.setUpDefaultServer();
		ssh.setHost("127.0.0.1");
		ssh.setKeyPairProvider(new FileKeyPairProvider(at.resolve("host")));
		ssh.setPublickeyAuthenticator(new AuthorizedKeysAuthenticator(at.resolve("authorized_keys")));
		ssh.setFileSystemFactory(new NativeFileSystemFactory());
		ssh.setSubsystemFactories(List.of(new SftpSubsystemFactory()));
		ssh.start();
		return ssh.getPort();
	}

	/** Accepts one key. */
	static class OneKey extends AbstractPublicKeyAuthenticationProvider {
		final SshPublicKey known;

		OneKey(Path file) throws Exception { known = SshKeyUtils.getPublicKey(file.toFile()); }
		public boolean isAuthorizedKey(SshPublicKey key, SshConnection from) { return key.equals(known); }
		public boolean checkKey(SshPublicKey key, SshConnection from) { return key.equals(known); }
		public void add(SshPublicKey key, String comment, SshConnection from) { }
		public void remove(SshPublicKey key, SshConnection from) { }
		public Iterator<SshPublicKeyFile> getKeys(SshConnection from) { return List.<SshPublicKeyFile>of().iterator(); }
	}

	static int maverick(Path at, int port) throws Exception {
		var ssh = new com.sshtools.server.SshServer("127.0.0.1", port);
		ssh.addHostKey(SshKeyUtils.getPrivateKey(at.resolve("host").toFile(), ""));
		ssh.addAuthenticator(new OneKey(at.resolve("id.pub")));
		var files = NioFileFactoryBuilder.create().withHome(at.resolve("files")).withoutSandbox().build();
		ssh.setFileFactory(connection -> files);
		ssh.start();
		return port;
	}

	public static void main(String[] args) throws Exception {
		Path at = Path.of(args[1]);
		int port;
		if (args[0].equals("mina")) {
			port = mina(at);
		} else {
			try (var free = new java.net.ServerSocket(0)) { port = free.getLocalPort(); }
			maverick(at, port);
		}
		System.out.println("PORT " + port);
		while (System.in.read() >= 0) { }
		System.exit(0);
	}
}
