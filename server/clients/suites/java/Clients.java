import com.jcraft.jsch.ChannelSftp;
import com.jcraft.jsch.JSch;
import com.jcraft.jsch.SftpException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import net.schmizz.sshj.SSHClient;
import net.schmizz.sshj.sftp.RemoteResourceInfo;
import net.schmizz.sshj.transport.verification.PromiscuousVerifier;
import org.apache.sshd.client.SshClient;
import org.apache.sshd.client.session.ClientSession;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.sftp.client.SftpClient;
import org.apache.sshd.sftp.client.SftpClientFactory;

/** usage: Clients PORT KEY SERVED. Has each library do the same steps, and looks at what came of them in SERVED. */
public class Clients {
	/** What a library can do; paths are relative to the server's root. */
	interface Client extends AutoCloseable {
		void put(String local, String name) throws Exception;
		void get(String name, String local) throws Exception;
		void rename(String from, String to) throws Exception;
		void symlink(String target, String link) throws Exception;
		String readlink(String link) throws Exception;
		void mkdir(String name) throws Exception;
		void rmdir(String name) throws Exception;
		void remove(String name) throws Exception;
		void chmod(String name, int mode) throws Exception;
		long size(String name) throws Exception;
		Set<String> list(String dir) throws Exception;
		/** Whether the error says that there is no such file. */
		boolean missing(Exception err);
	}

	interface Step {
		void run() throws Exception;
	}

	static Path served;
	static byte[] data = new byte[3000001];
	static List<String> results = new java.util.ArrayList<>();

	static void check(boolean right) {
		if (!right) throw new IllegalStateException("wrong result");
	}

	static void step(String name, Step step) {
		String result = "ok " + name;
		try {
			step.run();
		} catch (Exception | Error err) {
			err.printStackTrace();
			result = "FAIL " + name + " " + err;
		}
		results.add(result);
	}

	static void round(String library, Client c) throws Exception {
		Path dir = Files.createDirectory(served.resolve(library));
		String at = library + "/";
		Files.write(Path.of("local"), data);
		step(library + ".put", () -> {
			c.put("local", at + "put");
			check(Arrays.equals(Files.readAllBytes(dir.resolve("put")), data));
		});
		step(library + ".get", () -> {
			Files.write(dir.resolve("get"), data);
			c.get(at + "get", library + "-got");
			check(Arrays.equals(Files.readAllBytes(Path.of(library + "-got")), data));
		});
		step(library + ".rename", () -> {
			Files.writeString(dir.resolve("from"), "x");
			c.rename(at + "from", at + "to");
			check(Files.exists(dir.resolve("to")) && !Files.exists(dir.resolve("from")));
		});
		step(library + ".symlink", () -> {
			c.symlink("target", at + "link");
			check(Files.readSymbolicLink(dir.resolve("link")).endsWith("target"));
			check(c.readlink(at + "link").endsWith("target"));
		});
		step(library + ".directories", () -> {
			c.mkdir(at + "made");
			check(Files.isDirectory(dir.resolve("made")));
			c.rmdir(at + "made");
			check(!Files.exists(dir.resolve("made")));
		});
		step(library + ".remove", () -> {
			Files.writeString(dir.resolve("gone"), "x");
			c.remove(at + "gone");
			check(!Files.exists(dir.resolve("gone")));
		});
		step(library + ".chmod", () -> {
			Files.writeString(dir.resolve("mode"), "x");
			c.chmod(at + "mode", 0640);
			check(PosixFilePermissions.toString(Files.getPosixFilePermissions(dir.resolve("mode"))).equals("rw-r-----"));
		});
		step(library + ".size", () -> {
			Files.write(dir.resolve("size"), data);
			check(c.size(at + "size") == data.length);
		});
		step(library + ".list", () -> {
			Files.createDirectory(dir.resolve("many"));
			for (int i = 0; i < 500; i++) Files.writeString(dir.resolve("many/" + i), "");
			Set<String> names = c.list(at + "many");
			names.removeAll(Set.of(".", ".."));
			check(names.size() == 500);
		});
		step(library + ".missing", () -> {
			try {
				c.size(at + "missing");
			} catch (Exception err) {
				check(c.missing(err));
				return;
			}
			check(false);
		});
		c.close();
	}

	static Client jsch(int port, String key) throws Exception {
		JSch jsch = new JSch();
		jsch.addIdentity(key);
		var session = jsch.getSession("u", "127.0.0.1", port);
		session.setConfig("StrictHostKeyChecking", "no");
		session.connect(30000);
		var c = (ChannelSftp) session.openChannel("sftp");
		c.connect(30000);
		return new Client() {
			public void put(String local, String name) throws Exception { c.put(local, name); }
			public void get(String name, String local) throws Exception { c.get(name, local); }
			public void rename(String from, String to) throws Exception { c.rename(from, to); }
			public void symlink(String target, String link) throws Exception { c.symlink(target, link); }
			public String readlink(String link) throws Exception { return c.readlink(link); }
			public void mkdir(String name) throws Exception { c.mkdir(name); }
			public void rmdir(String name) throws Exception { c.rmdir(name); }
			public void remove(String name) throws Exception { c.rm(name); }
			public void chmod(String name, int mode) throws Exception { c.chmod(mode, name); }
			public long size(String name) throws Exception { return c.stat(name).getSize(); }
			public Set<String> list(String dir) throws Exception {
				Set<String> names = new TreeSet<>();
				for (var entry : c.ls(dir)) names.add(entry.getFilename());
				return names;
			}
			public boolean missing(Exception err) {
				return ((SftpException) err).id == ChannelSftp.SSH_FX_NO_SUCH_FILE && err.getMessage().equals("No such file");
			}
			public void close() { session.disconnect(); }
		};
	}

	static Client sshj(int port, String key) throws Exception {
		SSHClient ssh = new SSHClient();
		ssh.addHostKeyVerifier(new PromiscuousVerifier());
		ssh.connect("127.0.0.1", port);
		ssh.authPublickey("u", key);
		var c = ssh.newSFTPClient();
		return new Client() {
			public void put(String local, String name) throws Exception { c.put(local, name); }
			public void get(String name, String local) throws Exception { c.get(name, local); }
			public void rename(String from, String to) throws Exception { c.rename(from, to); }
			// sshj sends its arguments in the order in which they come.
			public void symlink(String target, String link) throws Exception { c.symlink(target, link); }
			public String readlink(String link) throws Exception { return c.readlink(link); }
			public void mkdir(String name) throws Exception { c.mkdir(name); }
			public void rmdir(String name) throws Exception { c.rmdir(name); }
			public void remove(String name) throws Exception { c.rm(name); }
			public void chmod(String name, int mode) throws Exception { c.chmod(name, mode); }
			public long size(String name) throws Exception { return c.stat(name).getSize(); }
			public Set<String> list(String dir) throws Exception {
				Set<String> names = new TreeSet<>();
				for (RemoteResourceInfo entry : c.ls(dir)) names.add(entry.getName());
				return names;
			}
			public boolean missing(Exception err) {
				return ((net.schmizz.sshj.sftp.SFTPException) err).getStatusCode()
					== net.schmizz.sshj.sftp.Response.StatusCode.NO_SUCH_FILE;
			}
			public void close() throws Exception { ssh.close(); }
		};
	}

	static Client mina(int port, String key) throws Exception {
		SshClient ssh = SshClient.setUpDefaultClient();
		ssh.setServerKeyVerifier((session, address, hostKey) -> true);
		ssh.setKeyIdentityProvider(new FileKeyPairProvider(Path.of(key)));
		ssh.start();
		ClientSession session = ssh.connect("u", "127.0.0.1", port).verify(30000).getSession();
		session.auth().verify(30000);
		SftpClient c = SftpClientFactory.instance().createSftpClient(session);
		return new Client() {
			public void put(String local, String name) throws Exception { c.put(Path.of(local), name); }
			public void get(String name, String local) throws Exception {
				try (var in = c.read(name)) {
					Files.copy(in, Path.of(local));
				}
			}
			public void rename(String from, String to) throws Exception { c.rename(from, to); }
			public void symlink(String target, String link) throws Exception { c.symLink(link, target); }
			public String readlink(String link) throws Exception { return c.readLink(link); }
			public void mkdir(String name) throws Exception { c.mkdir(name); }
			public void rmdir(String name) throws Exception { c.rmdir(name); }
			public void remove(String name) throws Exception { c.remove(name); }
			public void chmod(String name, int mode) throws Exception {
				c.setStat(name, new SftpClient.Attributes().perms(mode));
			}
			public long size(String name) throws Exception { return c.stat(name).getSize(); }
			public Set<String> list(String dir) throws Exception {
				Set<String> names = new TreeSet<>();
				for (var entry : c.readDir(dir)) names.add(entry.getFilename());
				return names;
			}
			public boolean missing(Exception err) {
				return ((org.apache.sshd.sftp.common.SftpException) err).getStatus()
					== org.apache.sshd.sftp.common.SftpConstants.SSH_FX_NO_SUCH_FILE;
			}
			public void close() { ssh.stop(); }
		};
	}

	public static void main(String[] args) throws Exception {
		int port = Integer.parseInt(args[0]);
		served = Path.of(args[2]);
		new java.util.Random(1).nextBytes(data);
		round("jsch", jsch(port, args[1]));
		round("sshj", sshj(port, args[1]));
		round("mina", mina(port, args[1]));
		Files.write(Path.of(System.getenv("RESULTS")), results, StandardOpenOption.APPEND);
		System.exit(0);
	}
}
