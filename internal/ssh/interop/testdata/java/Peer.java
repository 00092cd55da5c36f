import com.jcraft.jsch.ChannelExec;
import com.jcraft.jsch.JSch;
import com.jcraft.jsch.Session;
import com.jcraft.jsch.UIKeyboardInteractive;
import com.jcraft.jsch.UserInfo;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.sshd.client.ClientBuilder;
import org.apache.sshd.client.SshClient;
import org.apache.sshd.client.channel.ClientChannelEvent;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.core.CoreModuleProperties;
import org.apache.sshd.server.Environment;
import org.apache.sshd.server.ExitCallback;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.channel.ChannelSession;
import org.apache.sshd.server.command.Command;
import org.apache.sshd.server.config.keys.AuthorizedKeysAuthenticator;

/** JSch and Apache MINA as clients and, the latter, as a server: see site_test.go and server_test.go. */
public class Peer {
	static final int BLOCK = 1 << 20;
	static final String COMMAND = "cat; echo words >&2; exit 3";
	static final Map<String, String> METHODS = Map.of("password", "password", "keyboard",
		"keyboard-interactive", "ed25519", "publickey", "ecdsa", "publickey", "rsa", "publickey");

	/** A program on the host. */
	interface Program {
		OutputStream in() throws Exception;
		InputStream out() throws Exception;
		InputStream err() throws Exception;
		/** Waits for the end. */
		int status() throws Exception;
	}

	interface Library {
		void session(Path dir, int port, String login, int mib) throws Exception;
	}

	/** Sends blocks through the command, and checks what comes back, and how it ends. */
	static void run(Path dir, int mib, Program p) throws Exception {
		byte[] block = Files.readAllBytes(dir.resolve("block"));
		OutputStream in = p.in();
		Thread sender = new Thread(() -> {
			try {
				for (int i = 0; i < mib; i++) in.write(block);
				in.close();
			} catch (Exception err) {
				err.printStackTrace(); // and the reader gets too little
			}
		});
		sender.setDaemon(true);
		sender.start();
		InputStream out = p.out();
		for (int i = 0; i < mib; i++) {
			if (!Arrays.equals(out.readNBytes(BLOCK), block)) {
				throw new IllegalStateException("block " + i + " came back differently");
			}
		}
		if (out.read() != -1) throw new IllegalStateException("more came back");
		sender.join();
		String words = new String(p.err().readAllBytes());
		if (!words.equals("words\n")) throw new IllegalStateException("standard error is " + words);
		int status = p.status();
		if (status != 3) throw new IllegalStateException("the exit status is " + status);
	}

	/** Answers questions with the password. */
	static class Person implements UserInfo, UIKeyboardInteractive {
		public String getPassphrase() { return null; }
		public String getPassword() { return "secret"; }
		public boolean promptPassword(String text) { return true; }
		public boolean promptPassphrase(String text) { return false; }
		public boolean promptYesNo(String text) { return false; }
		public void showMessage(String text) { }
		public String[] promptKeyboardInteractive(String to, String name, String text, String[] asked,
				boolean[] echo) {
			return Arrays.stream(asked).map(a -> "secret").toArray(String[]::new);
		}
	}

	static void jsch(Path dir, int port, String login, int mib) throws Exception {
		JSch jsch = new JSch();
		if (METHODS.get(login).equals("publickey")) jsch.addIdentity(dir.resolve("id_" + login).toString());
		Session session = jsch.getSession("ann", "127.0.0.1", port);
		session.setConfig("StrictHostKeyChecking", "no");
		session.setConfig("PreferredAuthentications", METHODS.get(login));
		// It does not offer this one by itself.
		for (String way : List.of("cipher.s2c", "cipher.c2s")) {
			session.setConfig(way, session.getConfig(way) + ",chacha20-poly1305@openssh.com");
		}
		session.setUserInfo(new Person());
		session.connect(60000);
		try {
			ChannelExec channel = (ChannelExec) session.openChannel("exec");
			channel.setCommand(COMMAND);
			OutputStream in = channel.getOutputStream();
			InputStream out = channel.getInputStream(), err = channel.getErrStream();
			channel.connect(60000);
			run(dir, mib, new Program() {
				public OutputStream in() { return in; }
				public InputStream out() { return out; }
				public InputStream err() { return err; }
				public int status() throws Exception {
					while (!channel.isClosed()) Thread.sleep(1);
					return channel.getExitStatus();
				}
			});
		} finally {
			session.disconnect();
		}
	}

	static void mina(Path dir, int port, String login, int mib) throws Exception {
		try (SshClient ssh = SshClient.setUpDefaultClient()) {
			ssh.setServerKeyVerifier((session, address, key) -> true);
			CoreModuleProperties.REKEY_BYTES_LIMIT.set(ssh, 1L << 20);
			CoreModuleProperties.PREFERRED_AUTHS.set(ssh, METHODS.get(login));
			if (METHODS.get(login).equals("publickey")) {
				ssh.setKeyIdentityProvider(new FileKeyPairProvider(dir.resolve("id_" + login)));
			}
			ssh.start();
			var session = ssh.connect("ann", "127.0.0.1", port).verify(60000).getSession();
			session.addPasswordIdentity("secret");
			session.auth().verify(60000);
			var channel = session.createExecChannel(COMMAND);
			channel.open().verify(60000);
			run(dir, mib, new Program() {
				public OutputStream in() { return channel.getInvertedIn(); }
				public InputStream out() { return channel.getInvertedOut(); }
				public InputStream err() { return channel.getInvertedErr(); }
				public int status() {
					channel.waitFor(EnumSet.of(ClientChannelEvent.CLOSED), 60000);
					return channel.getExitStatus();
				}
			});
		}
	}

	static void client(Library library, Path dir, List<String> cases) {
		for (String c : cases) {
			String[] part = c.split(";");
			String result = "ok " + part[0];
			try {
				library.session(dir, Integer.parseInt(part[1]), part[2], Integer.parseInt(part[3]));
			} catch (Exception err) {
				err.printStackTrace();
				result = "FAIL " + part[0] + " " + err;
			}
			System.out.println(result);
		}
	}

	/** What our client has a server run. */
	static class Echo implements Command {
		InputStream in;
		OutputStream out, err;
		ExitCallback exit;

		public void setInputStream(InputStream in) { this.in = in; }
		public void setOutputStream(OutputStream out) { this.out = out; }
		public void setErrorStream(OutputStream err) { this.err = err; }
		public void setExitCallback(ExitCallback exit) { this.exit = exit; }
		public void destroy(ChannelSession channel) { }

		public void start(ChannelSession channel, Environment env) {
			new Thread(() -> {
				try {
					in.transferTo(out);
					out.flush();
					err.write("words\n".getBytes());
					err.flush();
					exit.onExit(3);
				} catch (Exception e) {
					e.printStackTrace();
					exit.onExit(1);
				}
			}).start();
		}
	}

	static void server(Path dir) throws Exception {
		SshServer ssh = SshServer.setUpDefaultServer();
		ssh.setHost("127.0.0.1");
		// It begins no exchange itself: where a thread that writes does, the client's KEXDH_INIT may be
		// handled before that thread has noted its own KEXINIT (a NullPointerException in
		// AbstractSession.handleKexMessage). Our client begins one each MiB.
		CoreModuleProperties.REKEY_BYTES_LIMIT.set(ssh, 1L << 40);
		ssh.setKeyPairProvider(new FileKeyPairProvider(dir.resolve("host_ed25519"),
			dir.resolve("host_ecdsa"), dir.resolve("host_rsa")));
		ssh.setPublickeyAuthenticator(new AuthorizedKeysAuthenticator(dir.resolve("authorized_keys")));
		ssh.setPasswordAuthenticator((user, password, session) ->
			user.equals("ann") && password.equals("secret"));
		ssh.setCommandFactory((channel, text) -> new Echo());
		ssh.start();
		System.out.println("PORT " + ssh.getPort());
		Thread.sleep(Long.MAX_VALUE);
	}

	public static void main(String[] args) throws Exception {
		Path dir = Path.of(args[2]);
		if (args[1].equals("server")) server(dir);
		List<String> cases = Arrays.asList(args).subList(3, args.length);
		client(args[0].equals("jsch") ? Peer::jsch : Peer::mina, dir, cases);
		System.exit(0);
	}
}
