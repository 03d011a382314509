// All that is sent with a page: the player itself comes from the app's static files, and stays in the browser's store.
export default async function (mounting) {
  try {
    const pool = await import(new URL("app/static/pool/pool.js?v=[[version]]", document.baseURI));
    return pool.default(mounting);
  } catch (error) {
    mounting.parentElement.querySelector(".film").textContent = mounting.data.texts["film.failed"];
    console.error(error);
  }
}
