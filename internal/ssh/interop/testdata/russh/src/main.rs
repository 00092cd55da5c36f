//! russh as a client of sessions: see site_test.go and server_test.go.

use russh::client::{self, AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::{load_secret_key, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{cipher, kex, ChannelMsg, Disconnect, Limits, Preferred};
use std::{borrow::Cow, error::Error, fs, sync::Arc, time::Duration};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const COMMAND: &str = "cat; echo words >&2; exit 3";

struct Anybody;

impl client::Handler for Anybody {
    type Error = russh::Error;
    async fn check_server_key(
        &mut self,
        _: &PublicKeyOrCertificate,
    ) -> std::result::Result<bool, Self::Error> {
        Ok(true)
    }
}

fn config() -> Arc<client::Config> {
    // It does not offer all that it has by itself.
    let exchanges = [
        kex::MLKEM768X25519_SHA256, kex::CURVE25519, kex::CURVE25519_PRE_RFC_8731,
        kex::ECDH_SHA2_NISTP256, kex::ECDH_SHA2_NISTP384, kex::ECDH_SHA2_NISTP521,
        kex::DH_GEX_SHA256, kex::DH_G16_SHA512, kex::DH_G14_SHA256,
        kex::EXTENSION_SUPPORT_AS_CLIENT, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
    ];
    let ciphers = [
        cipher::CHACHA20_POLY1305, cipher::AES_256_GCM, cipher::AES_128_GCM, cipher::AES_256_CTR,
        cipher::AES_192_CTR, cipher::AES_128_CTR,
    ];
    Arc::new(client::Config {
        limits: Limits::new(1 << 20, 1 << 20, Duration::from_secs(3600)),
        preferred: Preferred {
            kex: Cow::Owned(exchanges.to_vec()),
            cipher: Cow::Owned(ciphers.to_vec()),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    })
}

async fn log_in(ssh: &mut Handle<Anybody>, dir: &str, login: &str) -> Result<bool> {
    let result = match login {
        "password" => ssh.authenticate_password("ann", "secret").await?,
        "keyboard" => {
            let mut reply = ssh.authenticate_keyboard_interactive_start("ann", None).await?;
            while let KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } = reply {
                let answers = vec!["secret".to_owned(); prompts.len()];
                reply = ssh.authenticate_keyboard_interactive_respond(answers).await?;
            }
            return Ok(matches!(reply, KeyboardInteractiveAuthResponse::Success));
        }
        _ => {
            let key = load_secret_key(format!("{dir}/id_{login}"), None)?;
            let hash = ssh.best_supported_rsa_hash().await?.flatten();
            let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
            ssh.authenticate_publickey("ann", key).await?
        }
    };
    Ok(matches!(result, AuthResult::Success))
}

async fn session(dir: &str, port: u16, login: &str, mib: usize) -> Result<()> {
    let block = fs::read(format!("{dir}/block"))?;
    let mut ssh = client::connect(config(), ("127.0.0.1", port), Anybody).await?;
    if !log_in(&mut ssh, dir, login).await? {
        return Err("the login failed".into());
    }
    let channel = ssh.channel_open_session().await?;
    channel.exec(true, COMMAND).await?;
    let (mut reader, writer) = channel.split();
    let send = async {
        for _ in 0..mib {
            writer.data(&block[..]).await?;
        }
        writer.eof().await
    };
    let receive = async {
        let (mut out, mut err, mut status) = (Vec::new(), Vec::new(), None);
        while let Some(message) = reader.wait().await {
            match message {
                ChannelMsg::Data { data } => out.extend_from_slice(&data),
                ChannelMsg::ExtendedData { data, ext: 1 } => err.extend_from_slice(&data),
                ChannelMsg::ExitStatus { exit_status } => status = Some(exit_status),
                _ => {}
            }
        }
        (out, err, status)
    };
    let (sent, (out, err, status)) = tokio::join!(send, receive);
    sent?;
    if out.len() != mib * block.len() || out.chunks(block.len()).any(|c| c != block) {
        return Err(format!("{} bytes came back, or others", out.len()).into());
    }
    if err != b"words\n" || status != Some(3) {
        return Err(format!("standard error is {err:?}, the exit status {status:?}").into());
    }
    ssh.disconnect(Disconnect::ByApplication, "", "").await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    for case in &args[3..] {
        let part: Vec<&str> = case.split(';').collect();
        match session(&args[2], part[1].parse()?, part[2], part[3].parse()?).await {
            Ok(()) => println!("ok {}", part[0]),
            Err(err) => println!("FAIL {} {err:?}", part[0]),
        }
    }
    Ok(())
}
