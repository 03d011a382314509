// All that is sent with a page: the live chart itself comes from the app's static files, and stays in the browser's store.
export default async function (mounting) {
  try {
    const live = await import(new URL("app/static/live/live.js?v=[[version]]", document.baseURI));
    return live.default(mounting);
  } catch (error) {
    mounting.parentElement.querySelector(".live").textContent = mounting.data.texts.failed;
    console.error(error);
  }
}
